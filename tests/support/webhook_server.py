"""A real HTTP server that takes what webhooks send."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from replview.features.alerts.webhook_acts import add_webhook
from replview.features.alerts.webhook_form import WebhookForm
from replview.store.models import Webhook


class Hook(ThreadingHTTPServer):
    """Keeps what it was sent and answers what it was told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/T0/secret?a=b"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers), body))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def make_webhook(name: str, url: str, **values: object) -> tuple[Webhook, str]:
    """Add a webhook, and return it with its secret."""
    form = WebhookForm({"name": name, "url": url, "format": "json", **values})
    assert form.is_valid(), form.errors
    return add_webhook(form, by="alice")


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()
