"""Webhooks: made, switched, removed, and called by one POST that is signed and bounded in time.

The address that was checked is the one connected to: a name that answers differently the second
time gains nothing. Redirects are not followed, what is answered is not read.
"""

import datetime as dt
import hashlib
import hmac
import http.client
import ipaddress
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from replview.features.alerts import messages
from replview.store.models import AlertRule, Delivery, Webhook
from replview.store.secrets import seal
from replview.store.write.access_record import Action, note
from replview.text.problem import CodedProblem

TIMEOUT_SECONDS = 5.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_URL_LIMIT = 2000
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Host and port to addresses, as text.
Resolve = Callable[[str, int], list[str]]
_NAME_LIMIT = 100
_SECRET_LIMIT = 200


class Refused(CodedProblem):
    """The webhook may not, or cannot, be called; the text says why and holds no secret."""

    code_of_all = "refused_webhook"


def parse_url(url: str) -> SplitResult:
    """A webhook's address in its parts. Raises ``Refused``."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise Refused("this is no address") from None
    if parts.scheme not in ("http", "https"):
        raise Refused("the address must begin with https:// or http://")
    if not parts.hostname or len(url) > _URL_LIMIT or not url.isascii():
        raise Refused("the address has no host, or is too long, or is not plain ASCII")
    if any(character <= " " or character == "\x7f" for character in url.strip()):
        raise Refused("the address must not contain spaces or control characters")
    if parts.username is not None or parts.password is not None:
        raise Refused("the address must not hold a user or a password")
    if port == 0:
        raise Refused("port 0 cannot be called")
    return parts


def host_of(url: str) -> str:
    """``hooks.example.com`` or ``hooks.example.com:8443``: all that pages and logs show."""
    parts = parse_url(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"


def is_public(address: str) -> bool:
    """Whether it is an address of the public internet, in whatever notation it hides."""
    found: Address = ipaddress.ip_address(address.partition("%")[0])
    inner: Address | None = None
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if found.teredo is not None:
            inner = found.teredo[1]
        if found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if int(found) >> 32 == 0:  # ::a.b.c.d, long out of use
            return False
    if inner is not None:
        return is_public(str(inner))
    return found.is_global and not found.is_multicast and not found.is_reserved


def resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """``v1=`` and the HMAC-SHA256 of ``timestamp.body``, in hexadecimal."""
    signed = str(timestamp).encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def post(
    url: str,
    body: bytes,
    *,
    secret: str,
    delivery_id: str,
    allow_private: bool = False,
    resolve: Resolve = resolve,
    timeout_seconds: float | None = None,
) -> int:
    """Send; returns the status it was answered with. Raises ``Refused``, ``OSError`` (and its
    TimeoutError, ssl.SSLError) and ``http.client.HTTPException``.
    """
    parts = parse_url(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _allowed_address(parts.hostname or "", port, resolve, allow_private)
    headers = _headers(body, secret, delivery_id)
    if timeout_seconds is None:
        timeout_seconds = TIMEOUT_SECONDS
    connection = _Pinned(parts, port, address, timeout_seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        if connection.ran_out:
            raise TimeoutError(f"no answer within {timeout_seconds:g} s") from error
        raise
    finally:
        connection.close()


def _allowed_address(host: str, port: int, resolve: Resolve, allow_private: bool) -> str:
    """The first of the host's addresses to which may be sent. Raises ``Refused``."""
    try:
        addresses = resolve(host, port)
    except (OSError, UnicodeError):
        raise Refused("the host's name cannot be resolved") from None
    allowed = [found for found in addresses if allow_private or is_public(found)]
    if not allowed:
        raise Refused("the host has no public address, and private ones are not allowed")
    return allowed[0]


def _headers(body: bytes, secret: str, delivery_id: str) -> dict[str, str]:
    """The headers of a delivery that is sent now, signed where there is a secret."""
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "replview",
        "Idempotency-Key": delivery_id,
        "Replview-Delivery": delivery_id,
        "Replview-Timestamp": str(timestamp),
        "Connection": "close",
    }
    if secret:
        headers["Replview-Signature"] = signature(secret, timestamp, body)
    return headers


class _Pinned(http.client.HTTPConnection):
    """A connection to one checked address, cut off as a whole after ``timeout_seconds``."""

    def __init__(self, parts: SplitResult, port: int, address: str, timeout_seconds: float) -> None:
        super().__init__(parts.hostname or "", port, timeout=timeout_seconds)
        # Of the Host header: without the port where it is the scheme's own.
        self.default_port = 443 if parts.scheme == "https" else 80
        self._address = address
        self._secure = parts.scheme == "https"
        self.ran_out = False
        self._alarm = threading.Timer(timeout_seconds, self._cut_off)
        self._alarm.daemon = True
        self._raw: socket.socket | None = None

    def connect(self) -> None:
        """To the checked address; TLS asks for the name."""
        self._alarm.start()
        self._raw = socket.create_connection((self._address, self.port), self.timeout)
        self.sock = self._raw
        if self._secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self._raw, server_hostname=self.host)

    def close(self) -> None:
        """And no longer watch the time."""
        self._alarm.cancel()
        super().close()

    def _cut_off(self) -> None:
        # Each single read has a timeout of its own; a peer that drips never runs into that.
        self.ran_out = True
        for found in (self._raw, self.sock):
            if found is not None:
                with suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)


class WebhookProblem(CodedProblem, ValueError):
    """A webhook cannot be made of this; ``field`` says of which part."""

    code_of_all = "bad_webhook"
    status = 400


def add_webhook(
    name: str,
    url: str,
    *,
    by: str,
    secret: str = "",
    format: str = Webhook.Format.JSON,
    allow_private: bool = False,
    severities: Iterable[str] = (),
) -> tuple[Webhook, str]:
    """Make one; returns it and the secret that signs (made here where none is given).

    Raises ``WebhookProblem``.
    """
    name, secret = name.strip(), secret.strip()
    if not name or len(name) > _NAME_LIMIT:
        raise WebhookProblem(f"Give it a name of at most {_NAME_LIMIT} characters", field="name")
    if Webhook.objects.filter(name=name).exists():
        raise WebhookProblem("There is a webhook of this name already", field="name")
    host = _checked(url, allow_private)
    if format not in Webhook.Format.values:
        raise WebhookProblem("Choose one of the formats", field="format")
    if len(secret) > _SECRET_LIMIT:
        raise WebhookProblem(f"At most {_SECRET_LIMIT} characters", field="secret")
    chosen = [value for value in AlertRule.Severity.values if value in set(severities)]
    secret = secret or secrets.token_urlsafe(32)
    webhook = Webhook.objects.create(
        name=name,
        sealed_url=seal(url.strip()),
        host=host,
        format=format,
        sealed_secret=seal(secret),
        allow_private=allow_private,
        severities=chosen if len(chosen) < len(AlertRule.Severity.values) else [],
        created_by=by,
    )
    note(Action.CHANGED_SETTINGS, subject=f"webhook {name}: added")
    return webhook, secret


def switch_webhook(webhook: Webhook, *, on: bool) -> None:
    """Have it told of what fires from now on, or no more."""
    webhook.enabled = on
    webhook.save(update_fields=["enabled"])
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: {'on' if on else 'off'}")


def remove_webhook(webhook: Webhook) -> None:
    webhook.delete()
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: removed")


def send_test(webhook: Webhook) -> Delivery:
    """Put a test message into the outbox; it is tried once."""
    now = dt.datetime.now(dt.UTC)
    note(Action.CHANGED_SETTINGS, subject=f"webhook {webhook.name}: tested")
    return Delivery.objects.create(
        webhook=webhook, event=messages.TEST, created_at=now, next_try_at=now
    )


def _checked(url: str, allow_private: bool) -> str:
    """The host; a private address written as such is refused at once, a name when it is called."""
    try:
        parts, host = parse_url(url), host_of(url)
    except Refused as error:
        raise WebhookProblem(f"{str(error)[:1].upper()}{str(error)[1:]}", field="url") from None
    try:
        public = is_public(parts.hostname or "")
    except ValueError:
        public = parts.hostname != "localhost"
    if not public and not allow_private:
        raise WebhookProblem(
            "This is a private address: allow private addresses to use it", field="url"
        )
    return host
