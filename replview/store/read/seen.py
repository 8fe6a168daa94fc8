"""Filters that withhold values of changes and transactions from readers without a right on them.

Every query that returns rows of ``change`` for display applies these functions. They return their
argument as it is where the visibility is open.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import orjson
from psycopg import sql

from replview.store.read.changes.values import cut_sql
from replview.store.read.rows import ACTOR, ACTOR_GRADE, ChangeRow, RowStep, TransactionRow
from replview.store.read.session import ReadSession
from replview.store.read.visibility import MASKED, NO_RIGHT, Visibility

_STEP_COLUMNS = sql.SQL("""
    c.transaction_id, c.seq, (c.lsn - '0/0')::bigint, c.subxid, c.op::text, c.old_kind::text,
    {old}, {new}, c.relation_id, c.version_id, c.key_hash, c.old_key_hash,
    t.incarnation_id, t.commit_seq, t.xid, t.gid, t.state, (t.commit_lsn - '0/0')::bigint,
    t.commit_time, {actor}, {actor_grade}
""")
_OLD, _NEW = sql.Identifier("c", "old"), sql.Identifier("c", "new")
_ACTORS = {"actor": sql.SQL(ACTOR), "actor_grade": sql.SQL(ACTOR_GRADE)}
#: Columns of ``change c`` and ``transaction t`` that make a ``RowStep``.
STEP_COLUMNS = _STEP_COLUMNS.format(old=_OLD, new=_NEW, **_ACTORS).as_string()
#: Characters beyond which values are cut in scans of many changes.
CUT_CHARACTERS = 20_000
_cut = partial(cut_sql, look_into=4096, characters=CUT_CHARACTERS, head=400)
#: ``STEP_COLUMNS`` with long values cut (``store.read.changes.values``), for pages with many
#: changes.
CUT_COLUMNS = _STEP_COLUMNS.format(old=_cut(_OLD), new=_cut(_NEW), **_ACTORS).as_string()
#: Fields of a withheld logical message that are shown all the same.
_MESSAGE_SHOWN = ("prefix", "transactional")
_JSON_COLUMNS = tuple(map(TransactionRow._fields.index, ("context", "actors", "relations")))
_RELATIONS_COLUMN = TransactionRow._fields.index("relations")
#: Replaces a definition that may contain a hidden value.
WITHHELD = "withheld: it may hold a value that is not shown"
_NAMES = re.compile(r'"((?:[^"]|"")+)"|([^\W\d][\w$]*)')
_VALUES = re.compile(r"'|(?<![\w$])\d|\b(?:WHERE|true|false)\b", re.IGNORECASE)
_HOLDS_TEXT = sql.SQL("""
    EXISTS (SELECT FROM jsonb_each_text({image}) v WHERE v.value ILIKE %(pattern)s {of_value})
""")
_CHANGE_CONDITION = sql.SQL(
    "AND (c.relation_id IS NULL OR c.version_id = ANY(%(searched_versions)s::bigint[]))"
)
_VALUE_CONDITION = sql.SQL("""
    AND NOT coalesce(jsonb_exists(%(masked_columns)s::jsonb -> c.relation_id::text, v.key), false)
""")


def seen_change(change: ChangeRow, visibility: Visibility) -> ChangeRow:
    """Return the change with masked values marked, and without values if its table is hidden."""
    if visibility.open:
        return change
    if change.op == "M":
        if not visibility.hides_message_in(change.transaction_id):
            return change
        message = change.new or {}
        content = {name: message[name] for name in _MESSAGE_SHOWN if name in message}
        return change._replace(new=content, hidden=True)
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
    """Return the change with masked values marked.

    An update must not reveal whether a masked value changed: neither by its absence from the new
    row, nor by an old key, which the server sends only if the key changed.
    """
    old, new, old_kind = change.old, change.new, change.old_kind
    update = change.op == "U"
    if update and old_kind == "K" and old and not masked.isdisjoint(old):
        sent = {name: value for name, value in old.items() if name not in masked}
        if all((new or {}).get(name, value) == value for name, value in sent.items()):
            old = old_kind = None
    columns = {str(column["name"]) for column in change.columns} if update else set()
    return change._replace(
        old=masked_image(old, masked),
        old_kind=old_kind,
        new=masked_image(new, masked, unsent=columns.intersection(masked)),
    )


def seen_step(step: RowStep, visibility: Visibility) -> RowStep:
    """Return a row's step without hidden values, and with masked ones marked."""
    if visibility.open or step.op == "T" or step.relation_id is None:
        return step
    if visibility.hides(step.relation_id):
        return replace(step, old=None, new=None)
    masked = visibility.masked(step.relation_id, version_id=step.version_id)
    if not masked:
        return step
    masked_columns = visibility.masked_in(step.relation_id, step.version_id)
    return replace(
        step,
        old=masked_image(step.old, masked),
        new=masked_image(step.new, masked, unsent=masked_columns if step.op == "U" else ()),
    )


def step_of(row: Sequence[Any], visibility: Visibility) -> RowStep:
    """Return a row of ``STEP_COLUMNS`` as a step."""
    values = list(row)
    for index in (6, 7):
        if values[index] is not None:
            values[index] = orjson.loads(values[index])
    return seen_step(RowStep(*values), visibility)


class _Sized(Protocol):
    """A transaction whose size may have to be withheld."""

    @property
    def relations(self) -> Mapping[str, Any]: ...
    @property
    def messages(self) -> int: ...
    @property
    def incarnation_id(self) -> int: ...


def withholds_size(row: _Sized, visibility: Visibility) -> bool:
    """Return whether the size is withheld, as it would reveal the length of hidden values."""
    if visibility.open:
        return False
    relation_ids = list(map(int, row.relations or ()))
    visibility.learn(relation_ids)
    return any(
        visibility.hides(relation_id) or visibility.masked(relation_id)
        for relation_id in relation_ids
    ) or (row.messages > 0 and visibility.hides_messages_of_incarnation(row.incarnation_id))


def learn_touched(rows: Iterable[Sequence[Any]], visibility: Visibility, before: int = 0) -> None:
    """Read in one query what may be seen of the tables that transactions touched.

    ``before`` is the number of columns that precede ``TRANSACTION_COLUMNS``.
    """
    if not visibility.open:
        documents = (row[before + _RELATIONS_COLUMN] for row in rows)
        visibility.learn(
            {int(relation_id) for text in documents for relation_id in orjson.loads(text or "{}")}
        )


def transaction_of(row: Sequence[Any], visibility: Visibility) -> TransactionRow:
    """Return a row of ``TRANSACTION_COLUMNS``, without the context if messages are withheld."""
    values = list(row)
    for index in _JSON_COLUMNS:
        if values[index] is not None:
            values[index] = orjson.loads(values[index])
    transaction = TransactionRow(*values)
    if withholds_size(transaction, visibility):
        transaction = transaction._replace(size_withheld=True)
    if transaction.context is None or not visibility.hides_messages_of_incarnation(
        transaction.incarnation_id
    ):
        return transaction
    return transaction._replace(context=None)


def masked_image(
    image: Mapping[str, Any] | None, masked: Collection[str], *, unsent: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return the row with marks in place of masked values, NULL included.

    ``unsent`` names masked columns of an updated row that are marked even if they were not sent:
    their absence would reveal that they did not change.
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
    """Return a definition (default, constraint, index, row filter) from a source's catalog.

    The result is ``WITHHELD`` if the reader has no right on the table, or if the definition
    contains a value and names a masked column or a whole row. ``names`` lists the table's names,
    (schema, table), on record and now. ``of`` is the column whose default it is. ``also`` adds
    columns that are masked.
    """
    names = list(names)
    if any(visibility.hides_table(source_id, *table_name) for table_name in names):
        return WITHHELD
    if (visibility.open and not also) or not (of or _VALUES.search(definition)):
        return definition
    identifiers = {m[1].replace('""', '"') if m[1] else m[2] for m in _NAMES.finditer(definition)}
    columns = [{"name": name} for name in {*identifiers, of}]
    masked = frozenset[str](also).union(
        *(visibility.masked_of_table(source_id, *table_name, columns) for table_name in names)
    )
    names_row = ".*" in definition and not visibility.open
    return WITHHELD if names_row or not masked.isdisjoint({*identifiers, of}) else definition


def without_row_filters(detail: Any) -> Any:
    """Return a statement, or a document with statements in it, without any row filter.

    A row filter quotes values. A statement is cut at its first one.
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
    """Return statements about publications, without row filters if anything is hidden or masked."""
    return detail if visibility.open else without_row_filters(detail)


@dataclass(frozen=True, slots=True)
class TextLimits:
    """SQL conditions over ``change c`` for what a search for a text in values must leave out."""

    #: Condition on a change, and in ``of_value`` on ``v``, one of its values with the column as
    #: ``key``; empty: no limit.
    of_change: sql.Composable = field(default_factory=lambda: sql.SQL(""))
    of_value: sql.Composable = field(default_factory=lambda: sql.SQL(""))
    #: The named parameters of both.
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def holds_text(self) -> sql.Composed:
        """Return the condition that ``change c`` has a value like ``%(pattern)s``."""
        in_new, in_old = (
            _HOLDS_TEXT.format(image=image, of_value=self.of_value) for image in (_NEW, _OLD)
        )
        return sql.SQL("({} OR {}) {}").format(in_new, in_old, self.of_change)


def pattern_of(text: str) -> str:
    """Return the ILIKE pattern for values that contain the text."""
    escaped = text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"


def text_limits(
    session: ReadSession, relation_ids: Collection[int], *, transaction_id: int | None = None
) -> TextLimits:
    """Return what a text search among changes of these tables or of this transaction leaves out.

    No masked value matches, nothing of a hidden table, and nothing of a table or shape that is
    created after this call.
    """
    visibility = session.visibility
    if visibility.open:
        return TextLimits()
    visibility.learn(relation_ids)
    visible = [relation_id for relation_id in relation_ids if not visibility.hides(relation_id)]
    columns = {
        str(table_id): sorted(masked)
        for table_id in visible
        if (masked := visibility.masked(table_id))
    }
    if transaction_id is None:
        hides_messages = visibility.hides_some_messages
    else:
        hides_messages = visibility.hides_message_in(transaction_id)
    params = {
        "searched_versions": sorted(set[int]().union(*map(visibility.versions, visible))),
        "masked_columns": orjson.dumps(columns).decode(),
    }
    no_messages = sql.SQL(" AND c.op::text <> 'M'" if hides_messages else "")
    return TextLimits(_CHANGE_CONDITION + no_messages, _VALUE_CONDITION, params)


def withheld_reason(
    session: ReadSession, relation_ids: Collection[int], columns: Collection[str], table: str
) -> str:
    """Return why nobody may search these columns of a table; empty: they may be searched.

    ``relation_ids`` are all relations of that name.
    """
    visibility = session.visibility
    if visibility.open:
        return ""
    visibility.learn(relation_ids)
    if any(map(visibility.hides, relation_ids)):
        return f"you have {NO_RIGHT} of {table}"
    masked = frozenset[str]().union(*map(visibility.masked, relation_ids))
    masked_column = next((column for column in columns if column in masked), None)
    return (
        ""
        if masked_column is None
        else f"column {masked_column} of {table} is masked, so its values cannot be searched"
    )


def tables_of(session: ReadSession, transaction_ids: Collection[int]) -> list[int]:
    """Return the tables that these transactions touched; empty where nothing is hidden."""
    if session.visibility.open:
        return []
    query = """
        SELECT DISTINCT k::bigint FROM transaction t, jsonb_object_keys(t.relations) k
        WHERE t.id = ANY(%s)
    """
    return [row[0] for row in session.rows(query, [list(transaction_ids)])]


def tables_without_size(session: ReadSession) -> list[str]:
    """Return the tables whose transactions withhold their size, as keys of ``relations``."""
    visibility, tables = session.visibility, all_tables(session)
    visibility.learn(tables)
    return [
        str(relation_id)
        for relation_id in tables
        if visibility.hides(relation_id) or visibility.masked(relation_id)
    ]


def incarnations_without_messages(session: ReadSession) -> list[int]:
    """Return the incarnations whose messages, and the sizes that these add to, are withheld."""
    visibility = session.visibility
    if not visibility.hides_some_messages:
        return []
    query = "SELECT i.id, s.source_id FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id"
    return [row[0] for row in session.rows(query) if visibility.hides_messages(row[1])]


def all_tables(session: ReadSession) -> list[int]:
    """Return the identifiers of all tables; empty where nothing is hidden."""
    if session.visibility.open:
        return []
    return [row[0] for row in session.rows("SELECT id FROM relation")]
