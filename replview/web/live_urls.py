"""Addresses of the live page."""

from django.urls import path

from replview.web.views import live, test_message

urlpatterns = [
    path("live/", live.live_page, name="live"),
    path("live/<int:slot_id>/test-message/", test_message.send, name="test-message"),
]
