"""Stream responses that are made while they are sent.

Under ASGI, Django would read a synchronous iterator to its end before it sends anything. Here a
thread makes each piece only when the one before was sent, so a slow client limits the work.
"""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse

from replview.access.visibility import current_visibility, use_visibility
from replview.store.read.changes.csv_lines import RISKY
from replview.store.read.visibility import Visibility

_PIECE_CHARACTERS = 64 * 1024


def csv_pieces(rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Yield rows as CSV in UTF-8, in pieces of about 64 thousand characters; None is empty."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    for row in rows:
        writer.writerow(_safe(value) for value in row)
        if buffer.tell() > _PIECE_CHARACTERS:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(RISKY) else value


def stream(
    request: HttpRequest, pieces: Iterator[bytes], content_type: str
) -> StreamingHttpResponse:
    """Return a response that makes one piece at a time, with the visibility of the request."""
    pieces = _VisibleStream(pieces, current_visibility())
    if isinstance(request, ASGIRequest):
        return StreamingHttpResponse(_in_a_thread(pieces), content_type=content_type)
    return StreamingHttpResponse(pieces, content_type=content_type)


class _VisibleStream(Iterator[bytes]):
    """An iterator that makes pieces after the request ended, with the request's visibility."""

    def __init__(self, pieces: Iterator[bytes], visibility: Visibility) -> None:
        self._pieces = pieces
        self._visibility = visibility

    def __next__(self) -> bytes:
        with use_visibility(self._visibility):
            return next(self._pieces)

    def close(self) -> None:
        """Close the pieces, because the client wants no more."""
        if close := getattr(self._pieces, "close", None):
            close()


async def _in_a_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Make all pieces in one thread, because a connection to the store belongs to its thread."""
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="download")
    try:
        while (piece := await loop.run_in_executor(thread, next, pieces, None)) is not None:
            yield piece
    finally:
        thread.submit(_end, pieces)
        thread.shutdown(wait=False)


def _end(pieces: Iterator[bytes]) -> None:
    try:
        if close := getattr(pieces, "close", None):
            close()
    finally:
        connection.close()
