"""What a look into a slot found, in words; the same for the page and the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from replview.store.models import Transaction
from replview.text.formats import age_words, bytes_words, count_words, plural

NO_BREAK = "\u00a0"
#: A look calls open what arrives while it is in progress, which pages call streaming.
_STATES = {"open": Transaction.State.STREAMING.value}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A transaction that waits in the slot."""

    name: str
    is_gid: bool
    state: str
    commit_lsn: str | None
    commit_time: datetime | None
    changes: int | None
    size_bytes: int | None
    tables: str

    @property
    def has_symbol(self) -> bool:
        """Whether its state is one that pages have a symbol for."""
        return self.state in Transaction.State.values


class Found:
    """A result, read carefully: what is missing in it is unknown, never zero."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.result = result
        self.tables: list[dict[str, Any]] = list(result.get("tables") or [])
        self.waiting = [_waiting(row) for row in result.get("listed") or []]
        self.unknown = [str(sentence) for sentence in result.get("unknown") or []]
        self.oldest = moment(result.get("oldest_commit"))
        self.newest = moment(result.get("newest_commit"))

    def number(self, name: str) -> int | None:
        """A count of the result."""
        value = self.result.get(name)
        return value if isinstance(value, int) else None

    @property
    def complete(self) -> bool:
        """Everything that waits was looked at."""
        return bool(self.result.get("complete"))

    @property
    def title(self) -> str:
        """``12 transactions wait``."""
        count, still_open = self.number("transactions"), self.number("open_transactions")
        at_least = "" if self.complete else "At least "
        if count is None:
            return "How much waits is unknown."
        if count:
            return f"{at_least}{plural(count, 'transaction')} {'waits' if count == 1 else 'wait'}."
        if not self.complete:
            return "No transaction's end was reached."
        if still_open:
            return f"No ended transaction waits, {still_open} still open."
        return "Nothing waits."

    @property
    def cause(self) -> str:
        """How much, how old, how long we looked; and that the slot is where it was."""
        parts = []
        changes = self.number("changes")
        if changes:
            tables = f" in {plural(len(self.tables), 'table')}" if self.tables else ""
            parts.append(f"{plural(changes, 'change')}{tables}")
        if self.oldest is not None:
            parts.append(f"oldest committed {age_words(timezone.now() - self.oldest)} ago")
        prepared = self.number("prepared")
        if prepared:
            parts.append(f"{count_words(prepared)} prepared")
        what = ", ".join(parts)
        looked = f"looked for {self.seconds}, slot not moved."
        return f"{what}; {looked}" if what else f"{looked[:1].upper()}{looked[1:]}"

    @property
    def seconds(self) -> str:
        """How long we looked: ``1.2 s``."""
        value = self.result.get("seconds")
        return f"{value:.1f}{NO_BREAK}s" if isinstance(value, int | float) else "an unknown time"

    def not_looked_at(self, max_changes: int, max_seconds: float) -> str:
        """What the bounds kept from us; empty where they did not."""
        match self.result.get("stopped_by"):
            case "changes":
                bound = f"{count_words(max_changes)} changes"
            case "seconds":
                bound = f"{max_seconds:g}{NO_BREAK}s"
            case _:
                return "" if self.complete else "The look ended before the slot's end."
        until = self.result.get("until_lsn")
        place = f" at {until}" if until else ""
        return f"The look ended at its bound of {bound}{place}: what comes after was not looked at."


def moment(value: Any) -> datetime | None:
    """A time as the result spells it."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _waiting(row: Mapping[str, Any]) -> Waiting:
    gid, xid = row.get("gid"), row.get("xid")
    tables = [
        str(table.get("table", "unknown")) if isinstance(table, Mapping) else str(table)
        for table in row.get("tables") or []
    ]
    return Waiting(
        name=str(gid or xid or "unknown"),
        is_gid=bool(gid),
        state=_STATES.get(str(row.get("state")), str(row.get("state") or "unknown")),
        commit_lsn=row.get("commit_lsn"),
        commit_time=moment(row.get("commit_time")),
        changes=row.get("changes"),
        size_bytes=row.get("bytes"),
        tables=", ".join(tables),
    )


def counts_words(table: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Operations of a table that occurred, by their letters."""
    found = []
    for letter, name in zip("IUDT", ("inserts", "updates", "deletes", "truncates"), strict=True):
        if table.get(name):
            found.append((letter, int(table[name])))
    return found


def size_words(size: int | None) -> str:
    """``1.2 MB``; unknown says so."""
    return "unknown" if size is None else bytes_words(size)
