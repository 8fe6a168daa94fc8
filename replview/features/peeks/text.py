"""What a look into a slot found, in words; the same for the page and the command line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from replview.access.visibility import current_visibility, reading_session
from replview.access.withheld import seen_peeked
from replview.store.models import Transaction
from replview.store.read.changes.records import OPERATIONS
from replview.store.read.rows import ChangeRow
from replview.text.formats import age_words, bytes_words, count_words, plural
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.component_html import grade_kind

NO_BREAK = "\u00a0"
#: A look calls open what arrives while it is in progress, which pages call streaming.
_STATES = {"open": Transaction.State.STREAMING.value}
_LETTERS = {word: letter for letter, word in OPERATIONS.items()}
_OWN_FIELDS = ("cascade", "restart_identity", "prefix", "content", "content_base64",
               "transactional")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiting:
    name: str
    is_gid: bool
    state: str
    commit_lsn: str | None
    commit_time: datetime | None
    changes: int | None
    size_bytes: int | None
    tables: str
    #: All who are named in it; empty: unknown.
    who: str

    @property
    def has_symbol(self) -> bool:
        return self.state in Transaction.State.values


def seen_sizes(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a look found, its sizes only where every value may be seen: they tell how long a
    value is.
    """
    if reading_session().visibility.open:
        return result
    listed = [{**row, "bytes": None} for row in result.get("listed") or []]
    return {**result, "bytes": None, "listed": listed}


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
        value = self.result.get(name)
        return value if isinstance(value, int) else None

    @property
    def complete(self) -> bool:
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


def moment(value: object) -> datetime | None:
    """A time as the result spells it."""
    try:
        found = datetime.fromisoformat(value if isinstance(value, str) else "")
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
        who=", ".join(
            f"{part['actor']}{' (perhaps)' if part.get('grade') == 'perhaps' else ''}"
            for part in {part["actor"]: part for part in row.get("actors") or []}.values()
            if part["actor"]
        ),
    )


def counts_words(table: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Operations of a table that occurred, by their letters."""
    names = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates"}
    return [(letter, int(table[name])) for letter, name in names.items() if table.get(name)]


def size_words(size: int | None) -> str:
    """``1.2 MB``; unknown says so."""
    return "unknown" if size is None else bytes_words(size)


@dataclass(slots=True)
class Group:
    """Changes of one transaction and actor that follow each other."""

    name: str
    actor: str = ""
    grade: str = ""
    blocks: list[Block] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return grade_kind(self.grade)


def groups_of(changes: Iterable[Mapping[str, Any]], source_id: int) -> list[Group]:
    """Blocks in order, a heading for each transaction and actor; without what may not be seen."""
    visibility = current_visibility()
    groups: list[Group] = []
    for number, change in enumerate(changes, start=1):
        xid = change.get("gid") or change.get("xid")
        who = str(change.get("actor") or ""), str(change.get("actor_grade") or "")
        group = Group("" if xid is None else str(xid), *who)
        if not groups or replace(groups[-1], blocks=[]) != group:
            groups.append(group)
        row = seen_peeked(_row(change, number), source_id, visibility)
        groups[-1].blocks += blocks_of([row])
    return groups


def _row(change: Mapping[str, Any], number: int) -> ChangeRow:
    """A change of the one JSON form as the store would hold it, as far as it goes.

    It has no transaction of ours and no key hash: so nothing is derived from the record.
    """
    op = _LETTERS.get(str(change.get("op")), "M")
    old, new = _image(change.get("old")), _image(change.get("new"))
    if op in "TM":
        new = {name: change[name] for name in _OWN_FIELDS if name in change}
    key = _image(change.get("key")) or {}
    # The order in which the server sent them, where it was kept.
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
    """The whole old row, or no more than its key."""
    if not old:
        return None
    return "K" if set(old) <= set(key) else "O"
