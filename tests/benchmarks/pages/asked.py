"""Defines a kind of request, and functions that return its addresses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from tests.benchmarks.pages.draws import SLOT, Draws
from tests.benchmarks.pages.links import joined, link
from tests.benchmarks.pages.measuring import Asker

#: The limit of a page in milliseconds on the server, and of a list in queries.
LIST_MS, QUERIES = 200.0, 12
#: Makes so many addresses.
Addresses = Callable[[Draws, Asker, int], list[str]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests that are alike."""

    name: str
    #: So many addresses of its kind.
    addresses: Addresses
    bar_ms: float = LIST_MS
    #: None: no bar.
    bar_queries: int | None = None


def url(name: str, *arguments: Any, **words: Any) -> str:
    """An address of the measured slot."""
    query = urlencode({"slot": SLOT, **{k: v for k, v in words.items() if v != ""}}, safe="/.,")
    return f"{reverse(name, args=arguments)}?{query}"


def same(name: str, **words: Any) -> Addresses:
    """The same page again and again."""
    return lambda draws, asker, count: [url(name, **words)] * count


def each(
    make: Callable[[Draws], str],
) -> Addresses:
    """Another page each time."""
    return lambda draws, asker, count: [make(draws) for _ in range(count)]


def older(address: str, asker: Asker, count: int) -> list[str]:
    """The pages that follow from one on, a link at a time."""
    found: list[str] = []
    while len(found) < count:
        href = link(asker.get(address), "older")
        if href is None:
            break
        address = joined(address, href)
        found.append(address)
    return found


def transactions(**words: Any) -> Addresses:
    """The first page of a filter, and the pages that follow it, half each."""

    def made(draws: Draws, asker: Asker, count: int) -> list[str]:
        given = {k: v(draws) if callable(v) else v for k, v in words.items()}
        first = url("transactions", **given)
        return [first] * (count // 2) + older(first, asker, count - count // 2)

    return made


def until(draws: Draws) -> str:
    return draws.moment().isoformat()


def deep(**words: Any) -> Addresses:
    """Pages of long ago: what was before some moment, and the page that follows it."""

    def made(draws: Draws, asker: Asker, count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            given = {k: v(draws) if callable(v) else v for k, v in words.items()}
            start = url("transactions", **given, until=until(draws))
            found += [start, *older(start, asker, 2)]
        return found[:count]

    return made
