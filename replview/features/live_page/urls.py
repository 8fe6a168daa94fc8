"""URLs of the live page."""

from django.urls import path

from replview.features.live_page import views as live

urlpatterns = [
    path("live/", live.live_page, name="live"),
    path("live/<int:slot_id>/test-message/", live.send, name="test-message"),
]
