"""Addresses of the sockets."""

from django.urls import path

from replview.live.export_sockets import ExportSocket
from replview.live.sample_sockets import SampleSocket
from replview.live.sockets import LiveSocket

websocket_urlpatterns = [
    path("ws/live/<int:slot_id>/", LiveSocket.as_asgi()),
    path("ws/samples/", SampleSocket.as_asgi()),
    path("ws/exports/", ExportSocket.as_asgi()),
]
