"""Lists the kinds of requests that are measured, and the limits of each."""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from tests.benchmarks.pages.asked import QUERIES, Addresses, Kind, each, older, same, url
from tests.benchmarks.pages.draws import Draws
from tests.benchmarks.pages.links import joined, link
from tests.benchmarks.pages.list_kinds import transaction_lists
from tests.benchmarks.pages.measuring import Asker
from tests.benchmarks.pages.people import ACTORS, RARE_ACTOR

ROW_MS, SEARCH_MS = 150.0, 1000.0


def _some_transaction(name: str) -> Addresses:
    return lambda draws, asker, count: [url(name, row["id"]) for row in draws.transactions(count)]


def _row_pages(name: str = "", *, hot: bool = False, **more: str) -> Callable[..., list[str]]:
    def made(draws: Draws, asker: Asker, count: int) -> list[str]:
        return [
            url(
                "row-history",
                table=row.table,
                **{f"key.{k}": v for k, v in row.key.items()},
                **more,
            )
            for row in draws.rows(count, table=name, hot=hot)
        ]

    return made


def all_kinds() -> Iterator[Kind]:
    """Every kind, in the order of the navigation."""
    yield Kind("overview", same("overview"))
    yield Kind("live", same("live"))
    yield Kind("in flight", same("in-flight"))
    yield Kind("slot", lambda d, a, n: [reverse("slot", args=["shop", "replview"])] * n)
    yield from transaction_lists()
    yield from _transaction_pages()
    yield from _other_pages()


def _transaction_pages() -> Iterator[Kind]:
    def large(what: str, **words: Any) -> Kind:
        """A page of the large transaction, with a filter or without."""
        return Kind(f"large transaction, {what}", lambda d, a, n: [
            f"{reverse('transaction', args=[d.large])}?{urlencode(words, safe='.')}"
        ] * n)  # fmt: skip

    def last(what: str, **words: Any) -> Kind:
        """Return the kind of the large transaction's last page, found by the first one's link."""

        def made(draws: Draws, asker: Asker, count: int) -> list[str]:
            first = f"{reverse('transaction', args=[draws.large])}?{urlencode(words, safe='.')}"
            href = link(asker.get(first), "last")
            return [] if href is None else [joined(first, href)] * count

        return Kind(f"large transaction, {what}", made)

    yield Kind("transaction", _some_transaction("transaction"))
    yield Kind("transaction, its drawer", _some_transaction("transaction-drawer"))
    yield large("first page")
    yield last("last page")
    yield Kind("large transaction, anywhere", each(lambda d: (
        f"{reverse('transaction', args=[d.large])}?after={d.draw.randrange(d.plan.scale.largest)}"
    )))  # fmt: skip
    yield large("one table", table="public.payments")
    yield last("one table, last page", table="public.payments")
    yield large("one table, deletes", table="public.documents", ops="D")
    yield large("text", q="gift, no invoice")
    yield large("text nowhere", q="no such words")


def _other_pages() -> Iterator[Kind]:
    yield Kind("relations", same("relations"), bar_queries=QUERIES)
    yield Kind("relation", each(lambda d: _relation(d)))
    yield Kind("relation, two versions", each(lambda d: f"{_relation(d)}?from=1&to=2"))
    yield Kind("relation, what is covered", each(lambda d: _relation(d, "relation-evidence")))
    yield Kind("actors", same("actors"), bar_queries=QUERIES)
    yield Kind("actor", each(lambda d: url("actor", actor=d.draw.choice(ACTORS))))
    yield Kind("actor, rare", same("actor", actor=RARE_ACTOR))
    yield Kind("actor, unknown", lambda d, a, n: [f"{url('actor')}&actor="] * n)
    yield Kind("row history, which row", each(lambda d: url("row-history", table=d.any_table())))
    yield Kind("row history", _row_pages(), bar_ms=ROW_MS)
    yield Kind("row history, hot row", _row_pages(hot=True), bar_ms=ROW_MS)
    yield Kind("row history, hot row, deep", _deep_rows, bar_ms=ROW_MS)
    yield Kind("row history, one column", _row_pages(hot=True, column="status"), bar_ms=ROW_MS)
    yield Kind("row as of a moment", _rows_as_of, bar_ms=ROW_MS)
    yield Kind("find, what to look for", same("find"))
    for what, where in SEARCHES.items():
        yield Kind(f"find, last day: {what}", _searches(where), bar_ms=SEARCH_MS)


#: Conditions to search for in the last day of the table that has a hundred thousand changes in it.
SEARCHES = {
    "one value": "status = paid",
    "a number": "amount > 990",
    "a changed column": "amount changed",
    "from one value to another": "status: pending -> paid",
    "nowhere": "note ~ no such words",
}


def _searches(where: str) -> Addresses:
    def made(draws: Draws, asker: Asker, count: int) -> list[str]:
        since = (draws.end - dt.timedelta(days=1)).isoformat()
        return [url("find", table=draws.searched, where=where, since=since)] * min(count, 20)

    return made


def _relation(draws: Draws, name: str = "relation") -> str:
    table = draws.any_table().partition(".")[2]
    return reverse(name, args=[draws.relations[table]])


def _deep_rows(draws: Draws, asker: Asker, count: int) -> list[str]:
    """The third page and those that follow of rows with thousands of changes."""
    found: list[str] = []
    for first in _row_pages(hot=True)(draws, asker, count):
        found += older(first, asker, 4)[1:]
        if len(found) >= count:
            break
    return found[:count]


def _rows_as_of(draws: Draws, asker: Asker, count: int) -> list[str]:
    return [
        f"{address}&{urlencode({'as_of': draws.moment(oldest=0.4).isoformat()})}"
        for address in _row_pages()(draws, asker, count)
    ]
