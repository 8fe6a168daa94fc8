"""Limits on the requests and sockets that one account, and one address, may have open.

The web server refuses everything beyond a thousand connections. Therefore each account and each
address has its own limit, and all together leave a reserve for probes and sign-in. Each
address has a limit in that reserve, too.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

#: Limit of all requests and sockets outside the reserve; the web server's own is 1,000.
MOST = 850
#: A page has one or two sockets, and requests a few parts at a time.
MOST_OF_ACCOUNT = {"http": 50, "websocket": 60}
#: Behind a gateway many people share one address.
MOST_OF_ADDRESS = {"http": 300, "websocket": 400, "reserve": 30}
#: Paths that use the reserve, and are answered while others are refused.
_RESERVED = ("/healthz", "/readyz", "/login/", "/logout/", "/setup/")
_SCOPE_KEY = "replview.share"


class Share:
    """The counts that one request or socket holds until it ends."""

    __slots__ = ("_counts", "_held", "_kind")

    def __init__(self, counts: Counter[Hashable], kind: str) -> None:
        self._counts, self._kind = counts, kind
        self._held: list[Hashable] = []

    def take(self, key: Hashable, most: int) -> bool:
        """Take one of a count if it is below ``most``, and return whether it was."""
        if self._counts[key] >= most:
            return False
        self._counts[key] += 1
        self._held.append(key)
        return True

    def take_of_account(self, account_id: int) -> bool:
        """Take one of the account's count, and return whether there was room."""
        return self.take((self._kind, account_id), MOST_OF_ACCOUNT[self._kind])

    def give_back(self) -> None:
        """Give back everything taken, when the request or socket ends."""
        for key in self._held:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        self._held.clear()


def takes_share(scope: Mapping[str, Any], account_id: int) -> bool:
    """Return whether the account may have one more open; true where nothing is counted."""
    share: Share | None = scope.get(_SCOPE_KEY)
    return share is None or share.take_of_account(account_id)


class BoundedShares:
    """The outermost ASGI application, which refuses requests and sockets beyond a limit."""

    def __init__(self, application: Application, *, socket_code: int) -> None:
        self._application, self._socket_code = application, socket_code
        #: Open requests and sockets of all together, of each address and of each account.
        self.counts: Counter[Hashable] = Counter()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass the request or socket on where there is room."""
        kind = scope["type"]
        share = Share(self.counts, kind)
        try:
            if self._has_room(share, kind, scope):
                await self._application({**scope, _SCOPE_KEY: share}, receive, send)
            elif kind == "websocket":
                await close_socket(receive, send, self._socket_code)
            else:
                await refuse(send, 429, b"Too many requests are under way.")
        finally:
            share.give_back()

    def _has_room(self, share: Share, kind: str, scope: AsgiScope) -> bool:
        if kind == "http" and scope["path"].startswith(_RESERVED):
            return share.take(("reserve", _address(scope)), MOST_OF_ADDRESS["reserve"])
        address_limit = (kind, _address(scope)), MOST_OF_ADDRESS[kind]
        return share.take("all", MOST) and share.take(*address_limit)


def _address(scope: AsgiScope) -> str:
    return str((scope.get("client") or ("",))[0])


async def close_socket(receive: Receive, send: Send, code: int) -> None:
    """Refuse a socket. It is accepted first, because only then does a browser get the code."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code})


async def refuse(send: Send, status: int, text: bytes) -> None:
    """Answer a request in plain text without passing it on."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
        (b"cache-control", b"no-store"),
        # The rest of the request's body is not read.
        (b"connection", b"close"),
        *([(b"retry-after", b"2")] if status == 429 else ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
