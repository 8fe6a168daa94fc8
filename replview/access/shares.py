"""How much one account, and one address, may have under way in this web process.

The web server refuses whatever comes once it holds a thousand connections. So that nobody takes all
of them, each account and each address has a share of its own, of requests and of sockets, all
together leave a reserve for probes and sign-in, and of that reserve an address has a share, too.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Of all together, beside the reserve: the web server's own limit is 1,000.
MOST = 850
#: A page has a socket or two, and asks for a few parts at a time.
MOST_OF_ACCOUNT = {"http": 50, "websocket": 60}
#: Many people may share one, behind a gateway.
MOST_OF_ADDRESS = {"http": 300, "websocket": 400, "reserve": 30}
#: What is answered while all else is refused.
_RESERVED = ("/healthz", "/readyz", "/login/", "/logout/", "/setup/")
_KEY = "replview.share"


class Share:
    """What one request or socket holds of the shares, until it ends."""

    __slots__ = ("_counts", "_held", "_kind")

    def __init__(self, counts: Counter[Hashable], kind: str) -> None:
        self._counts, self._kind = counts, kind
        self._held: list[Hashable] = []

    def take(self, whose: Hashable, most: int) -> bool:
        """Whether there is room; then it is taken."""
        if self._counts[whose] >= most:
            return False
        self._counts[whose] += 1
        self._held.append(whose)
        return True

    def take_of_account(self, account_id: int) -> bool:
        return self.take((self._kind, account_id), MOST_OF_ACCOUNT[self._kind])

    def give_back(self) -> None:
        for whose in self._held:
            self._counts[whose] -= 1
            if not self._counts[whose]:
                del self._counts[whose]
        self._held.clear()


def takes_share(scope: Mapping[str, Any], account_id: int) -> bool:
    """Whether the account may have one more of these under way; where nothing is counted it may."""
    share: Share | None = scope.get(_KEY)
    return share is None or share.take_of_account(account_id)


class BoundedShares:
    """An ASGI application around all others: what is beyond a share is answered at once."""

    def __init__(self, application: Application, *, socket_code: int) -> None:
        self._application, self._socket_code = application, socket_code
        #: Whose is how much: of all, of an address, of an account.
        self.counts: Counter[Hashable] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on where there is room."""
        kind = scope["type"]
        share = Share(self.counts, kind)
        try:
            if self._is_room(share, kind, scope):
                await self._application({**scope, _KEY: share}, receive, send)
            elif kind == "websocket":
                await close_socket(receive, send, self._socket_code)
            else:
                await refuse(send, 429, b"Too many requests are under way.")
        finally:
            share.give_back()

    def _is_room(self, share: Share, kind: str, scope: Scope) -> bool:
        if kind == "http" and scope["path"].startswith(_RESERVED):
            return share.take(("reserve", _address(scope)), MOST_OF_ADDRESS["reserve"])
        of_address = (kind, _address(scope)), MOST_OF_ADDRESS[kind]
        return share.take("all", MOST) and share.take(*of_address)


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


async def close_socket(receive: Receive, send: Send, code: int) -> None:
    """Refuse a socket: a browser learns the code only once it was open."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code})


async def refuse(send: Send, status: int, text: bytes) -> None:
    """Answer a request that nothing else looks at."""
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
        (b"cache-control", b"no-store"),
        # What is still on its way is not read.
        (b"connection", b"close"),
        *([(b"retry-after", b"2")] if status == 429 else ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
