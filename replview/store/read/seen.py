"""Changes and transactions as somebody may see them: values withheld where the visibility does.

Every reader that makes a row of ``change`` into something to show calls this, and does nothing
more where the visibility is open.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import orjson

from replview.store.read.changes.values import cut_sql
from replview.store.read.rows import ACTOR, ACTOR_GRADE, ChangeRow, Step, TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.visibility import MASKED, NO_RIGHT, Visibility

#: What a query of steps selects from ``change c`` and ``transaction t``.
STEP_COLUMNS = f"""
    c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.subxid, c.op::text, c.old_kind::text,
    c.old, c.new, c.relation_id, c.version_id, c.key_hash, c.old_key_hash,
    t.incarnation_id, t.commit_seq, t.xid, t.gid, t.state, (t.commit_lsn - '0/0')::bigint,
    t.commit_time, {ACTOR}, {ACTOR_GRADE}
"""
#: Values longer than this many characters are cut where a scan reads many changes.
CUT_CHARACTERS = 20_000
_CUT = {
    side: cut_sql(f"c.{side}", look_into=4096, characters=CUT_CHARACTERS, head=400)
    for side in ("old", "new")
}
#: The same, long values cut (see ``store.read.changes.values``): what a page shows of many changes.
CUT_COLUMNS = STEP_COLUMNS.replace("c.old, c.new", f"{_CUT['old']}, {_CUT['new']}")
#: Of a withheld message this is shown.
_MESSAGE_SHOWN = ("prefix", "transactional")
_JSON = tuple(map(TransactionRow._fields.index, ("context", "actors", "relations")))
_RELATIONS = TransactionRow._fields.index("relations")
#: Said in the place of a definition that may hold a value nobody is to see.
WITHHELD = "withheld: it may hold a value that is not shown"
_NAMES = re.compile(r'"((?:[^"]|"")+)"|([^\W\d][\w$]*)')
_VALUES = re.compile(r"'|(?<![\w$])\d|\b(?:WHERE|true|false)\b", re.IGNORECASE)
_OF_CHANGE = "AND (c.relation_id IS NULL OR c.version_id = ANY(%(searched_versions)s::bigint[]))"
_OF_VALUE = """
    AND NOT coalesce(jsonb_exists(%(masked_columns)s::jsonb -> c.relation_id::text, v.key), false)
"""


def seen_change(change: ChangeRow, visibility: Visibility) -> ChangeRow:
    """The change with masked values marked; without any value of a table that is hidden."""
    if visibility.open:
        return change
    if change.op == "M":
        if not visibility.hides_message_in(change.transaction_id):
            return change
        message = change.new or {}
        shown = {name: message[name] for name in _MESSAGE_SHOWN if name in message}
        return change._replace(new=shown, hidden=True)
    relation_id = change.relation_id
    if relation_id is None or change.op == "T":
        return change
    if visibility.hides(relation_id, version=change.version):
        return change._replace(
            old=None, new=None, key_hash=None, old_key_hash=None, columns=[], key_columns=[],
            hidden=True,
        )  # fmt: skip
    masked = visibility.masked(relation_id, version=change.version)
    return masked_change(change, masked) if masked else change


def masked_change(change: ChangeRow, masked: Set[str]) -> ChangeRow:
    """The change with masked values marked. Of an update nobody sees whether they changed: not by
    their absence, nor by an old key, which is sent only where the key is another.
    """
    old, new, old_kind = change.old, change.new, change.old_kind
    update = change.op == "U"
    if update and old_kind == "K" and old and not masked.isdisjoint(old):
        sent = {name: value for name, value in old.items() if name not in masked}
        if all((new or {}).get(name, value) == value for name, value in sent.items()):
            old = old_kind = None
    mine = {str(column["name"]) for column in change.columns} if update else set()
    return change._replace(
        old=masked_image(old, masked),
        old_kind=old_kind,
        new=masked_image(new, masked, unsent=mine.intersection(masked)),
    )


def seen_step(step: Step, visibility: Visibility) -> Step:
    """Return a row's step without what may not be seen."""
    if visibility.open or step.op == "T" or step.relation_id is None:
        return step
    if visibility.hides(step.relation_id):
        return replace(step, old=None, new=None)
    masked = visibility.masked(step.relation_id, version_id=step.version_id)
    if not masked:
        return step
    mine = visibility.masked_in(step.relation_id, step.version_id)
    return replace(
        step,
        old=masked_image(step.old, masked),
        new=masked_image(step.new, masked, unsent=mine if step.op == "U" else ()),
    )


def step_of(row: Sequence[Any], visibility: Visibility) -> Step:
    """A row of ``STEP_COLUMNS`` as a step."""
    values = list(row)
    for index in (6, 7):
        if values[index] is not None:
            values[index] = orjson.loads(values[index])
    return seen_step(Step(*values), visibility)


class _Sized(Protocol):
    """A transaction, as any reader has it."""

    @property
    def relations(self) -> Mapping[str, Any]: ...
    @property
    def messages(self) -> int: ...
    @property
    def incarnation_id(self) -> int: ...


def withholds_size(row: _Sized, visibility: Visibility) -> bool:
    """Whether its size would tell how long values are that are not shown."""
    if visibility.open:
        return False
    touched = list(map(int, row.relations or ()))
    visibility.learn(touched)
    return any(visibility.hides(one) or visibility.masked(one) for one in touched) or (
        row.messages > 0 and visibility.hides_messages_of_incarnation(row.incarnation_id)
    )


def learn_touched(rows: Iterable[Sequence[Any]], visibility: Visibility, before: int = 0) -> None:
    """Read at once what may be seen of the tables of transactions; ``before``: columns that stand
    before ``TRANSACTION_COLUMNS``.
    """
    if not visibility.open:
        documents = (row[before + _RELATIONS] for row in rows)
        visibility.learn({int(one) for text in documents for one in orjson.loads(text or "{}")})


def transaction_of(row: Sequence[Any], visibility: Visibility) -> TransactionRow:
    """A row of ``TRANSACTION_COLUMNS`` as it may be seen; messages gave it its context."""
    values = list(row)
    for place in _JSON:
        if values[place] is not None:
            values[place] = orjson.loads(values[place])
    found = TransactionRow(*values)
    if withholds_size(found, visibility):
        found = found._replace(size_withheld=True)
    if found.context is None or not visibility.hides_messages_of_incarnation(found.incarnation_id):
        return found
    return found._replace(context=None)


def masked_image(
    image: Mapping[str, Any] | None, masked: Collection[str], *, unsent: Collection[str] = ()
) -> dict[str, Any] | None:
    """A row with marks in place of masked values, NULL among them. ``unsent``: masked columns of an
    updated row, marked also where not sent: that they did not change is nobody's to know.
    """
    if image is None:
        return None
    marked = dict.fromkeys(unsent, MASKED)
    return marked | {name: MASKED if name in masked else value for name, value in image.items()}


def seen_definition(
    definition: str,
    visibility: Visibility,
    source_id: int,
    names: Iterable[tuple[str, str]],
    *,
    of: str = "",
    also: Collection[str] = (),
) -> str:
    """A default, constraint, index or row filter of a table as a source's catalog writes it;
    ``WITHHELD`` where a value stands in it and it names a masked column, or whole rows, and where
    there is no right on the table.

    ``names``: ``(schema, table)``, on record and now; ``of``: the column whose default it is;
    ``also``: more columns that are masked.
    """
    names = list(names)
    if any(visibility.hides_table(source_id, *each) for each in names):
        return WITHHELD
    if (visibility.open and not also) or not (of or _VALUES.search(definition)):
        return definition
    named = {m[1].replace('""', '"') if m[1] else m[2] for m in _NAMES.finditer(definition)}
    columns = [{"name": name} for name in {*named, of}]
    masked = frozenset[str](also).union(
        *(visibility.masked_of_table(source_id, *each, columns) for each in names)
    )
    whole = ".*" in definition and not visibility.open
    return WITHHELD if whole or not masked.isdisjoint({*named, of}) else definition


def without_row_filters(detail: Any) -> Any:
    """Return a statement, or a document with statements in it, without any row filter: such a
    filter quotes values. A statement ends at its first one.
    """
    if isinstance(detail, str):
        head, where, _ = detail.partition(" WHERE (")
        return f"{head}{where}{WITHHELD}) …" if where else detail
    if isinstance(detail, Mapping):
        return {name: without_row_filters(value) for name, value in detail.items()}
    if isinstance(detail, list | tuple):
        return [without_row_filters(value) for value in detail]
    return detail


def seen_statements(detail: Any, visibility: Visibility) -> Any:
    """Return statements about publications as they may be shown: with their row filters only where
    nothing is hidden or masked.
    """
    return detail if visibility.open else without_row_filters(detail)


@dataclass(frozen=True, slots=True)
class TextLimits:
    """What a search for a text in values must leave out, as SQL over ``change c``."""

    #: On a change, and on ``v``, one of its values with its column as ``key``; empty: all pass.
    of_change: str = ""
    of_value: str = ""
    #: The named parameters.
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def holds_text(self) -> str:
        """On ``change c``: one of its values is like ``%(pattern)s`` (see ``pattern_of``)."""
        sides = " OR ".join(
            f"EXISTS (SELECT FROM jsonb_each_text(c.{side}) v"
            f" WHERE v.value ILIKE %(pattern)s {self.of_value})"
            for side in ("new", "old")
        )
        return f"({sides}) {self.of_change}"


def pattern_of(text: str) -> str:
    """What is like anything that has the text in it, for ILIKE."""
    escaped = text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"


def text_limits(
    session: ReadSession, relation_ids: Collection[int], *, transaction_id: int | None = None
) -> TextLimits:
    """For a search among changes of these tables, or of this transaction: no masked value matches,
    nothing of a hidden table, and nothing of a table or shape that comes after this was asked.
    """
    visibility = session.visibility
    if visibility.open:
        return TextLimits()
    visibility.learn(relation_ids)
    seen = [relation_id for relation_id in relation_ids if not visibility.hides(relation_id)]
    columns = {str(each): sorted(masked) for each in seen if (masked := visibility.masked(each))}
    if transaction_id is None:
        hides_messages = visibility.hides_some_messages
    else:
        hides_messages = visibility.hides_message_in(transaction_id)
    values = {
        "searched_versions": sorted(set[int]().union(*map(visibility.versions, seen))),
        "masked_columns": orjson.dumps(columns).decode(),
    }
    no_messages = " AND c.op::text <> 'M'" if hides_messages else ""
    return TextLimits(_OF_CHANGE + no_messages, _OF_VALUE, values)


def withheld_reason(
    session: ReadSession, relation_ids: Collection[int], columns: Collection[str], table: str
) -> str:
    """Why nobody may search these columns of a table (all relations of its name), or empty."""
    visibility = session.visibility
    if visibility.open:
        return ""
    visibility.learn(relation_ids)
    if any(map(visibility.hides, relation_ids)):
        return f"you have {NO_RIGHT} of {table}"
    masked = frozenset[str]().union(*map(visibility.masked, relation_ids))
    asked = next((column for column in columns if column in masked), None)
    return "" if asked is None else f"{asked} of {table} is masked: nobody can look for its values"


def tables_of(session: ReadSession, transaction_ids: Collection[int]) -> list[int]:
    """The tables these transactions touched; asked only where something is hidden or masked."""
    if session.visibility.open:
        return []
    sql = """
        SELECT DISTINCT k::bigint FROM transaction t, jsonb_object_keys(t.relations) k
        WHERE t.id = ANY(%s)
    """
    return [row[0] for row in session.rows(sql, [list(transaction_ids)])]


def tables_without_size(session: ReadSession) -> list[str]:
    """Of those whose transactions tell no size the identifiers, as keys of their ``relations``."""
    visibility, tables = session.visibility, all_tables(session)
    visibility.learn(tables)
    return [str(one) for one in tables if visibility.hides(one) or visibility.masked(one)]


def all_tables(session: ReadSession) -> list[int]:
    """Every table there is; asked only where something is hidden or masked."""
    if session.visibility.open:
        return []
    return [row[0] for row in session.rows("SELECT id FROM relation")]
