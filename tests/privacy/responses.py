"""Everything the pages and the API answer to one account, looked through for a string."""

import html
import io
import re
import zipfile
from collections import deque
from collections.abc import Iterable

import pyarrow.parquet as pq
from django.test import Client

_LINKS = re.compile(r'(?:href|data-open|hx-get|data-copies-from|data-poll-url)="(/[^"#]*)')
#: Addresses that change something, or whose answers are not made by our views.
_LEFT_OUT = re.compile(r"^/(static|logout|login|components|api/v1/docs)")


class Looker:
    """One account's answers; ``leaks`` are the addresses whose answers hold the string."""

    def __init__(self, client: Client, text: str) -> None:
        self.client = client
        self.text = text
        self.seen: dict[str, int] = {}
        self.leaks: list[str] = []

    def get(self, url: str, **words: str) -> str:
        """One answer's text, looked through."""
        answer = self.client.get(url, words)
        whole = b"".join(answer.streaming_content) if answer.streaming else answer.content
        shown = "\n".join([whole.decode(errors="replace"), str(answer.headers), *_inside(whole)])
        address = f"{url} {words}" if words else url
        self.seen[address] = answer.status_code
        if self.text in shown:
            self.leaks.append(address)
        return whole.decode(errors="replace")

    def walk(self, starts: Iterable[str], most: int) -> None:
        """Follow links from these, breadth first; of one page's many forms a few."""
        waiting, forms = deque(starts), dict[str, int]()
        while waiting and len(self.seen) < most:
            url = waiting.popleft()
            form = re.sub(r"\d+", "0", url.partition("?")[0])
            if url in self.seen or _LEFT_OUT.match(url) or forms.get(form, 0) > 5:
                continue
            forms[form] = forms.get(form, 0) + 1
            shown = self.get(url)
            waiting += [html.unescape(link) for link in _LINKS.findall(shown)]


def _inside(whole: bytes) -> list[str]:
    """Return the texts in a Parquet file, or in a zip of such files; empty for other content."""
    if whole.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(whole))
        return [str(table.to_pydict()), str(table.schema.metadata)]
    if whole.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(whole)) as packed:
            return [text for name in packed.namelist() for text in _inside(packed.read(name))]
    return []
