"""Addresses of the sockets."""

from typing import Any

from django.urls import URLPattern, path

from replview.live.allowed import guarded
from replview.live.sockets import LiveSocket
from replview.live.watch_sockets import ExportSocket, SampleSocket


def _socket(route: str, consumer: Any) -> URLPattern:
    return path(route, guarded(route, consumer.as_asgi()))  # type: ignore[arg-type]


websocket_urlpatterns = [
    _socket("ws/live/<int:slot_id>/", LiveSocket),
    _socket("ws/samples/", SampleSocket),
    _socket("ws/exports/", ExportSocket),
]
