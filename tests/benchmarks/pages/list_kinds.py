"""The transactions list, by every filter, first pages and deep ones."""

from collections.abc import Iterator
from urllib.parse import urlencode

from django.urls import reverse

from tests.benchmarks.pages.asked import (
    QUERIES,
    Addresses,
    Kind,
    deep,
    each,
    same,
    transactions,
    until,
    url,
)
from tests.benchmarks.pages.people import ACTORS, ORIGINS, RARE_ACTOR


def transaction_lists() -> Iterator[Kind]:
    def kind(what: str, addresses: Addresses) -> Kind:
        return Kind(f"transactions, {what}", addresses, bar_queries=QUERIES)

    yield kind("first page", same("transactions"))
    yield kind("deep", deep())
    yield kind("all slots", lambda d, a, n: [reverse("transactions")] * n)
    yield kind("all slots, deep", lambda d, a, n: [
        f"{reverse('transactions')}?{urlencode({'until': until(d)})}" for _ in range(n)
    ])  # fmt: skip
    for state in ("committed", "prepared", "aborted", "skipped", "message", "snapshot", "open"):
        yield kind(f"state {state}", transactions(states=state))
    yield kind("table, frequent", transactions(tables=lambda d: d.frequent))
    yield kind("table, frequent, deep", deep(tables=lambda d: d.frequent))
    yield kind("table, rare", transactions(tables=lambda d: d.rare))
    yield kind("table, rare, deep", deep(tables=lambda d: d.rare))
    yield kind("any table, deep", deep(tables=lambda d: d.any_table()))
    yield kind("deletes", deep(ops="D"))
    yield kind("truncates (none)", transactions(ops="T"))
    yield kind("deletes in a table", deep(ops="D", tables=lambda d: d.any_table()))
    yield kind("actor, frequent", transactions(actor=ACTORS[0]))
    yield kind("actor, frequent, deep", deep(actor=ACTORS[0]))
    yield kind("actor, rare", transactions(actor=RARE_ACTOR))
    yield kind("actor, unknown", deep(actor="?"))
    yield kind("actor, nobody", transactions(actor="nobody"))
    yield kind("actor and rare table", transactions(actor=ACTORS[3], tables=lambda d: d.rare))
    yield kind("actor and table, deep", deep(actor=ACTORS[5], tables=lambda d: d.any_table()))
    yield kind("origin", deep(origin=ORIGINS[0]))
    yield kind("origin, none", deep(origin="-"))
    yield kind("gid", lambda d, a, n: [url("transactions", id=gid) for gid in d.gids(n)])
    yield kind("xid", each(lambda d: url("transactions", id=str(1000 + d.number()))))
    yield kind("≥ 500 changes", deep(min_changes=500))
    yield kind("≥ 100,000 changes", transactions(min_changes=100_000))
    yield kind("≥ 100 kB", deep(min_bytes=100_000))
    yield kind("prepared ≥ 1 h", deep(prepared_min=3600))
    yield kind("prepared ≥ 2.5 days", transactions(prepared_min=216_000))
    yield kind("since and until", each(lambda d: url(
        "transactions", since=d.moment().isoformat(), until=d.end.isoformat()
    )))  # fmt: skip
    yield kind("up to an LSN", each(lambda d: url(
        "transactions", to_lsn=lsn(d.plan.commit_lsn(d.number()))
    )))  # fmt: skip
    yield kind("jump to a time", each(lambda d: url("transactions", at=d.moment().isoformat())))
    yield kind("jump to an LSN", each(lambda d: url(
        "transactions", at=lsn(d.plan.commit_lsn(d.number()))
    )))  # fmt: skip
    yield kind("text, frequent", transactions(q="paid"))
    # Looked for a second at most by its own time limit, then offered to go on.
    yield Kind("transactions, text, nowhere", transactions(q="no such words"), bar_ms=1500)


def lsn(value: int) -> str:
    """Return an LSN in the form that PostgreSQL prints."""
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"
