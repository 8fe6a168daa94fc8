"""Describe the result of a peek in words, for the page and the command line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.text import capfirst

from replview.access.visibility import current_visibility, reading_session
from replview.access.withheld import seen_peeked
from replview.store.models import Transaction
from replview.store.read.changes.records import OPERATIONS
from replview.store.read.rows import ChangeRow
from replview.text.formats import NO_BREAK, age_words, count_words, plural, short_words
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.component_html import grade_kind

#: A peek calls a streamed transaction that has not ended open; pages call it streaming.
_PAGE_STATES = {"open": Transaction.State.STREAMING.value}
_LETTER_OF_OPERATION = {word: letter for letter, word in OPERATIONS.items()}
_OWN_FIELDS = ("cascade", "restart_identity", "prefix", "content", "content_base64",
               "transactional")  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A transaction that waits in the slot, as a row of the result."""

    name: str
    is_gid: bool
    state: str
    commit_lsn: str | None
    commit_time: datetime | None
    changes: int | None
    size_bytes: int | None
    tables: str
    #: The actors of the transaction; empty when unknown.
    who: str

    @property
    def has_symbol(self) -> bool:
        """Return whether the state is one of the store, which has a symbol."""
        return self.state in Transaction.State.values


def seen_sizes(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a peek's result, without sizes unless the account may see every value.

    A size tells how long a value is.
    """
    if reading_session().visibility.open:
        return result
    listed = [{**row, "bytes": None} for row in result.get("listed") or []]
    return {**result, "bytes": None, "listed": listed}


class PeekResult:
    """The result of a peek, read so that a missing value is unknown, never zero."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.result = result
        self.tables: list[dict[str, Any]] = list(result.get("tables") or [])
        self.waiting = [_waiting_row(row) for row in result.get("listed") or []]
        self.unknown = [str(sentence) for sentence in result.get("unknown") or []]
        self.oldest = moment(result.get("oldest_commit"))
        self.newest = moment(result.get("newest_commit"))

    def number(self, name: str) -> int | None:
        """Return an integer of the result; None when it is missing."""
        value = self.result.get(name)
        return value if isinstance(value, int) else None

    @property
    def complete(self) -> bool:
        """Return whether the peek reached the end of the slot's WAL."""
        return bool(self.result.get("complete"))

    @property
    def title(self) -> str:
        """Return the number of waiting transactions, such as ``12 transactions wait``."""
        count, still_open = self.number("transactions"), self.number("open_transactions")
        at_least = "" if self.complete else "At least "
        if count is None:
            return "The number of waiting changes is unknown."
        if count:
            return f"{at_least}{plural(count, 'transaction')} {'waits' if count == 1 else 'wait'}."
        if not self.complete:
            return "The peek reached the end of no transaction."
        if still_open:
            return f"No ended transaction waits; {still_open} still open."
        return "No transaction waits."

    @property
    def cause(self) -> str:
        """Return changes, age and duration in words, and that the slot was not moved."""
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
        facts = ", ".join(parts)
        duration = f"took {self.seconds}, slot not advanced."
        return f"{facts}; {duration}" if facts else capfirst(duration)

    @property
    def seconds(self) -> str:
        """Return the duration of the peek, for example ``1.2 s``."""
        value = self.result.get("seconds")
        return short_words(value * 1e6) if isinstance(value, int | float) else "an unknown time"

    def not_looked_at(self, max_changes: int, max_seconds: float) -> str:
        """Return a sentence about the bound that ended the peek; empty if it read everything."""
        match self.result.get("stopped_by"):
            case "changes":
                bound = f"{count_words(max_changes)} changes"
            case "seconds":
                bound = f"{max_seconds:g}{NO_BREAK}s"
            case _:
                return "" if self.complete else "The peek ended before the end of the slot."
        until = self.result.get("until_lsn")
        position = f" at {until}" if until else ""
        return f"The peek stopped at its limit of {bound}{position}: later changes were not read."


def moment(value: object) -> datetime | None:
    """Parse a time of the result; a time without a zone is UTC, and None stands for no time."""
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _waiting_row(row: Mapping[str, Any]) -> WaitingRow:
    gid, xid = row.get("gid"), row.get("xid")
    tables = [
        str(table.get("table", "unknown")) if isinstance(table, Mapping) else str(table)
        for table in row.get("tables") or []
    ]
    return WaitingRow(
        name=str(gid or xid or "unknown"),
        is_gid=bool(gid),
        state=_PAGE_STATES.get(str(row.get("state")), str(row.get("state") or "unknown")),
        commit_lsn=row.get("commit_lsn"),
        commit_time=moment(row.get("commit_time")),
        changes=row.get("changes"),
        size_bytes=row.get("bytes"),
        tables=", ".join(tables),
        who=", ".join(
            f"{part['actor']}{' (perhaps)' if part.get('grade') == 'perhaps' else ''}"
            for part in {part["actor"]: part for part in row.get("actors") or []}.values()
            if part["actor"]
        ),
    )


def counts_words(table: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return letter and count of each operation that occurred on a table."""
    names = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates"}
    return [(letter, int(table[name])) for letter, name in names.items() if table.get(name)]


@dataclass(slots=True)
class ChangeGroup:
    """A group is a run of adjacent changes of one transaction and actor."""

    name: str
    actor: str = ""
    grade: str = ""
    blocks: list[Block] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Return the kind of mark that shows the grade."""
        return grade_kind(self.grade)


def groups_of(changes: Iterable[Mapping[str, Any]], source_id: int) -> list[ChangeGroup]:
    """Return the visible changes as blocks, grouped by adjacent transaction and actor."""
    visibility = current_visibility()
    groups: list[ChangeGroup] = []
    for number, change in enumerate(changes, start=1):
        xid = change.get("gid") or change.get("xid")
        actor_and_grade = str(change.get("actor") or ""), str(change.get("actor_grade") or "")
        group = ChangeGroup("" if xid is None else str(xid), *actor_and_grade)
        if not groups or replace(groups[-1], blocks=[]) != group:
            groups.append(group)
        row = seen_peeked(_change_row(change, number), source_id, visibility)
        groups[-1].blocks += blocks_of([row])
    return groups


def _change_row(change: Mapping[str, Any], number: int) -> ChangeRow:
    """Return a change of the result as a row of the store, as far as it is known.

    The row has no transaction id and no key hash, so nothing is derived from the record.
    """
    op = _LETTER_OF_OPERATION.get(str(change.get("op")), "M")
    old, new = _image(change.get("old")), _image(change.get("new"))
    if op in "TM":
        new = {name: change[name] for name in _OWN_FIELDS if name in change}
    key = _image(change.get("key")) or {}
    # Use the order in which the server sent the columns, if it was kept.
    names = [*(change.get("columns") or []), *(new or old or {}), *(change.get("not_sent") or [])]
    return ChangeRow(
        transaction_id=0,
        seq=change.get("seq") or number,
        lsn=str(change.get("lsn") or ""),
        subxid=change.get("subxid"),
        op=op,
        old_kind=_old_kind(old, key),
        old=old,
        new=new,
        relation_id=None,
        key_hash=None,
        old_key_hash=None,
        schema=change.get("schema"),
        table=change.get("table") or ("unknown" if op not in "TM" else None),
        version=change.get("version"),
        replica_identity="FULL" if _old_kind(old, key) == "O" else None,
        columns=[] if op in "TM" else [{"name": str(name)} for name in dict.fromkeys(names)],
        key_columns=list(key),
    )


def _image(value: object) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


def _old_kind(old: Mapping[str, Any] | None, key: Mapping[str, Any]) -> str | None:
    """Return ``O`` for a whole old row, ``K`` for its key only, None for neither."""
    if not old:
        return None
    return "K" if set(old) <= set(key) else "O"
