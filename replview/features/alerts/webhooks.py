"""Call webhooks: one signed POST request, limited in time.

The request connects to the address that was checked, so a host name that resolves differently the
second time gains nothing. Redirects are not followed, and the response's body is not read.
"""

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from replview.text.problem import CodedProblem

TIMEOUT_SECONDS = 5.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_URL_LIMIT = 2000
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Resolves host and port to addresses, as text.
Resolve = Callable[[str, int], list[str]]


class WebhookRefused(CodedProblem):
    """The webhook may not or cannot be called; the message holds no secret."""

    code_of_all = "refused_webhook"


def parse_url(url: str) -> SplitResult:
    """Return the parts of a webhook's address. Raises ``WebhookRefused``."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise WebhookRefused("this is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise WebhookRefused("the address must begin with https:// or http://")
    if not parts.hostname or len(url) > _URL_LIMIT or not url.isascii():
        raise WebhookRefused("the address has no host, or is too long, or is not plain ASCII")
    if any(character <= " " or character == "\x7f" for character in url.strip()):
        raise WebhookRefused("the address must not contain spaces or control characters")
    if parts.username is not None or parts.password is not None:
        raise WebhookRefused("the address must not hold a user or a password")
    if port == 0:
        raise WebhookRefused("port 0 cannot be called")
    return parts


def host_of(url: str) -> str:
    """Return the host, with its port if given; pages and logs show nothing else of a URL."""
    parts = parse_url(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port is None else f"{host}:{parts.port}"


def is_public(address: str) -> bool:
    """Return whether the address is on the public internet, also in IPv6 notations of IPv4."""
    ip: IPAddress = ipaddress.ip_address(address.partition("%")[0])
    embedded: IPAddress | None = None
    if isinstance(ip, ipaddress.IPv6Address):
        embedded = ip.ipv4_mapped or ip.sixtofour
        if ip.teredo is not None:
            embedded = ip.teredo[1]
        if ip in _NAT64:
            embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if int(ip) >> 32 == 0:  # ::a.b.c.d, a deprecated notation of IPv4
            return False
    if embedded is not None:
        return is_public(str(embedded))
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def resolve(host: str, port: int) -> list[str]:
    """Return the host's addresses as text."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return ``v1=`` and the hexadecimal HMAC-SHA256 of ``timestamp.body``."""
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
    """Send the request and return the HTTP status.

    Raises ``WebhookRefused``, ``OSError`` (with ``TimeoutError`` and ``ssl.SSLError``) and
    ``http.client.HTTPException``.
    """
    parts = parse_url(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _allowed_address(parts.hostname or "", port, resolve, allow_private)
    headers = _headers(body, secret, delivery_id)
    if timeout_seconds is None:
        timeout_seconds = TIMEOUT_SECONDS
    connection = _PinnedConnection(parts, port, address, timeout_seconds)
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
    """Return the first allowed address of the host. Raises ``WebhookRefused``."""
    try:
        addresses = resolve(host, port)
    except (OSError, UnicodeError):
        raise WebhookRefused("the host's name cannot be resolved") from None
    allowed = [address for address in addresses if allow_private or is_public(address)]
    if not allowed:
        raise WebhookRefused("the host has no public address, and private ones are not allowed")
    return allowed[0]


def _headers(body: bytes, secret: str, delivery_id: str) -> dict[str, str]:
    """Return the headers of a delivery sent now, signed if there is a secret."""
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


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to one checked address that is closed after ``timeout_seconds`` in all."""

    def __init__(self, parts: SplitResult, port: int, address: str, timeout_seconds: float) -> None:
        super().__init__(parts.hostname or "", port, timeout=timeout_seconds)
        # Makes http.client leave the scheme's default port out of the Host header.
        self.default_port = 443 if parts.scheme == "https" else 80
        self._address = address
        self._secure = parts.scheme == "https"
        self.ran_out = False
        self._alarm = threading.Timer(timeout_seconds, self._cut_off)
        self._alarm.daemon = True
        self._raw: socket.socket | None = None

    def connect(self) -> None:
        """Connect to the checked address; TLS verifies the host name."""
        self._alarm.start()
        self._raw = socket.create_connection((self._address, self.port), self.timeout)
        self.sock = self._raw
        if self._secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self._raw, server_hostname=self.host)

    def close(self) -> None:
        """Close the connection, and stop the timer."""
        self._alarm.cancel()
        super().close()

    def _cut_off(self) -> None:
        # The socket's timeout is per read; a peer that sends slowly would never exceed it.
        self.ran_out = True
        for sock in (self._raw, self.sock):
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
