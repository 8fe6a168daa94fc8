"""Addresses of the live page."""

from django.urls import path

from replview.features.live_page import test_message
from replview.features.live_page import views as live

urlpatterns = [
    path("live/", live.live_page, name="live"),
    path("live/<int:slot_id>/test-message/", test_message.send, name="test-message"),
]
