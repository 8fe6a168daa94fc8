"""Following a page's own links, as somebody who pages through it does."""

import re
from html import unescape

_ANCHOR = re.compile(r"<a\b([^>]*)>(.*?)</a>", re.DOTALL | re.IGNORECASE)
_HREF = re.compile(r'\bhref="([^"]*)"')


def link(page: str, word: str) -> str | None:
    """Return the target of the first link whose text or ``rel`` has ``word``; None if none has."""
    for attributes, content in _ANCHOR.findall(page):
        told = re.sub(r"<[^>]*>", " ", content).lower()
        found = _HREF.search(attributes)
        if found and (word in told or f'rel="{word}"' in attributes):
            return unescape(found[1])
    return None


def joined(address: str, href: str) -> str:
    """A link's address from the root: one that is only a query is of the same page."""
    return href if href.startswith("/") else address.partition("?")[0] + href
