"""A change becomes SQL: a statement that repeats it, or one that undoes it or its transaction.

People read, judge and run that text; nothing is executed here. Nothing is guessed: where the old
row is not wholly known, the result is a reason instead of an undo. ``before`` is the before image
of a change whose old row was not sent, derived from the record; the SQL says so.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.changes.values import ALTERED, mark_of, same_value
from replview.store.read.row_history.replay import BeforeImage
from replview.store.read.rows import ChangeRow
from replview.store.read.sql_text import comment, equals, identifier, literal, string, table_name
from replview.store.read.visibility import NO_RIGHT

#: Without this clause an identity column GENERATED ALWAYS refuses a value; for other columns it has
#: no effect.
_OVERRIDING = "OVERRIDING SYSTEM VALUE"
_UNKNOWABLE = "-- The stream does not say which columns are generated: remove those."
_MOST_NAMES = 5
_NO_UNDO = {
    "M": "a message changed no row",
    "S": "a snapshot changed nothing: it is a row as a baseline read it",
    "T": "a truncation does not contain the rows that it removed",
}
#: Changes of a transaction at most whose undo is made: a longer text is too large for a clipboard.
MOST_CHANGES = 1_000
#: Reasons that are listed at most; further ones are only counted.
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """The SQL for a change or for its undo, or the reason why there is none."""

    sql: str | None
    reason: str = ""


def change_as_sql(change: ChangeRow, before: BeforeImage | None = None) -> ChangeStatement:
    """Return a statement that repeats the change."""
    if change.hidden:
        return ChangeStatement(None, _no_right_reason(change))
    if change.op == "M":
        return _message(change)
    table = table_name(change.schema, change.table or "")
    if change.op == "T":
        options = change.new or {}
        clauses = " RESTART IDENTITY" if options.get("restart_identity") else ""
        clauses += " CASCADE" if options.get("cascade") else ""
        return ChangeStatement(f"TRUNCATE TABLE {table}{clauses};")
    if change.op in ("I", "S"):
        new = change.new or {}
        reason = _unwritable(new)
        return (
            ChangeStatement(None, reason)
            if reason
            else ChangeStatement(_insert(change, table, new))
        )
    where, reason = _where(change, _known_old_row(change, before), after=False)
    if reason:
        return ChangeStatement(None, reason)
    if change.op == "D":
        return ChangeStatement(f"DELETE FROM {table}\nWHERE {where};")  # noqa: S608 (quoted; never run)
    return _update(change, table, before, where)


def undo_sql(
    change: ChangeRow, before: BeforeImage | None = None, *, shared: bool = False
) -> ChangeStatement:
    """Return a statement that undoes the change; ``shared``: other rows may have its key then."""
    if reason := undo_problem(change, before):
        return ChangeStatement(None, reason)
    table = table_name(change.schema, change.table or "")
    if change.op == "I":
        where, _ = _where(change, change.new or {}, after=True)
        where = _where_with_values(change, table, where, change.new or {}) if shared else where
        return ChangeStatement(
            f"-- Deletes the inserted row, even if it was updated since.\n"
            f"DELETE FROM {table}\nWHERE {where};"
        )
    old_row = _known_old_row(change, before)
    text = _derivation_comment(change, before)
    if change.op == "D":
        return ChangeStatement(text + _insert(change, table, old_row))
    altered = _altered(change, before)
    if altered:
        text += comment(f"Left out, {ALTERED}: {', '.join(altered)}.")
    changed = [name for name in _changed(change, old_row) if name not in altered]
    if not changed:
        return ChangeStatement(f"{text}-- No column differs: there is nothing to take back.")
    where, _ = _where(change, change.new or {}, after=True, before=old_row)
    where = (
        _where_with_values(change, table, where, {**old_row, **(change.new or {})})
        if shared
        else where
    )
    return ChangeStatement(
        f"{text}UPDATE {table}\nSET {_assignments(change, old_row, changed)}\nWHERE {where};"
    )


def undo_problem(change: ChangeRow, before: BeforeImage | None = None) -> str:
    """Return why the change cannot be undone; empty where it can."""
    if change.op in _NO_UNDO:
        return _NO_UNDO[change.op]
    if change.hidden:
        return _no_right_reason(change)
    if not change.columns:
        return "the table's columns are not known"
    if change.aborted:
        return "it was rolled back already"
    if change.op == "I":
        return _where(change, change.new or {}, after=True)[1]
    old_row = _known_old_row(change, before)
    reason = _unknown_before(change, old_row, _altered(change, before))
    if reason or change.op == "D":
        return reason
    return _where(change, change.new or {}, after=True, before=old_row)[1]


def _no_right_reason(change: ChangeRow) -> str:
    is_message = change.op == "M"
    tables = "all tables of this source" if is_message else f"{change.schema}.{change.table}"
    return f"you have {NO_RIGHT} of {tables}"


def _altered(change: ChangeRow, before: BeforeImage | None) -> list[str]:
    """Return the columns whose old value is unknown, as ALTER TABLE may have changed it, too."""
    altered = () if before is None else before.altered
    sent = altered if change.op == "D" else change.new or {}
    return [name for name in _names(change) if name in altered and name in sent]


def _unknown_before(
    change: ChangeRow, old_row: Mapping[str, object], altered: Collection[str]
) -> str:
    new = change.new or {}
    if change.op == "D":
        missing = [name for name in _names(change) if name not in old_row]
        image = old_row
    else:
        # A column that the server did not send kept its value.
        unsent = [name for name in _names(change) if name in new and name not in old_row]
        missing = [name for name in unsent if name not in altered]
        in_both = [name for name in new if name in old_row]
        image = {n: old_row[n] for n in in_both if same_value(old_row[n], new[n]) is not True}
        if altered and not image:
            missing = unsent
    if missing:
        sent = "the server sent only the key" if change.old else "the server sent no old row"
        if not altered and set(old_row) <= set(change.key_columns):
            return f"old row unknown: {sent}, and earlier changes do not contain it"
        unlisted = len(missing) - _MOST_NAMES
        listing = ", ".join(missing[:_MOST_NAMES]) + (
            f" and {unlisted} more" if unlisted > 0 else ""
        )
        verb = "is" if len(missing) == 1 else "are"
        since = ", as ALTER TABLE changed the table" if {*missing} & {*altered} else ""
        return f"old row not wholly known: {listing} {verb} unknown before this change{since}"
    return _unwritable(image)


def _unwritable(image: Mapping[str, object]) -> str:
    for name, value in image.items():
        if description := mark_of(value):
            is_state = any(word in description for word in ("form", "masked", "erased"))
            return f"{name}{' is' if is_state else ':'} {description}"
    return ""


def _known_old_row(change: ChangeRow, before: BeforeImage | None) -> dict[str, object]:
    """Return the old row as far as it is known; sent values take precedence over derived ones."""
    sent = change.old or {}
    if change.old_kind == "O" or before is None:
        return dict(sent)
    return {**before.image, **sent}


def _derivation_comment(change: ChangeRow, before: BeforeImage | None) -> str:
    if change.old_kind == "O" or before is None:
        return ""
    name = "an unnamed transaction" if before.xid is None else f"transaction {before.xid}"
    time_text = f", {before.commit_time:%Y-%m-%d %H:%M:%S} UTC" if before.commit_time else ""
    return f"-- The old row was not sent: it is derived from {name}{time_text}.\n"


def _names(change: ChangeRow) -> list[str]:
    return [str(column["name"]) for column in change.columns]


def _types(change: ChangeRow) -> dict[str, str | None]:
    return {str(column["name"]): column.get("type") for column in change.columns}


def _insert(change: ChangeRow, table: str, image: Mapping[str, object]) -> str:
    types = _types(change)
    names = [name for name in (_names(change) or list(image)) if name in image]
    left_out = [name for name in _names(change) if name not in image]
    text = comment(f"Not sent, left to their defaults: {', '.join(left_out)}.") if left_out else ""
    columns = ", ".join(identifier(name) for name in names)
    values = ", ".join(literal(image[name], types.get(name)) for name in names)
    return f"{_UNKNOWABLE}\n{text}INSERT INTO {table} ({columns}) {_OVERRIDING}\nVALUES ({values});"


def _changed(change: ChangeRow, old_row: Mapping[str, object]) -> list[str]:
    """Return the columns of an update that differ, or whose old value is unknown."""
    new = change.new or {}
    return [
        name
        for name in (_names(change) or list(new))
        if name in new and (name not in old_row or same_value(old_row[name], new[name]) is not True)
    ]


def _update(
    change: ChangeRow, table: str, before: BeforeImage | None, where: str
) -> ChangeStatement:
    new = change.new or {}
    old_row = _known_old_row(change, before)
    changed = _changed(change, old_row)
    if set(old_row) <= set(change.key_columns):
        # Only the key is known of the old row: set every column that was sent, except an unchanged
        # key.
        changed = [name for name in changed if name in old_row or name not in change.key_columns]
    if reason := _unwritable({name: new[name] for name in changed}):
        return ChangeStatement(None, reason)
    if not changed:
        return ChangeStatement("-- No column differs: the update changed nothing that was sent.")
    sets = _assignments(change, new, changed)
    return ChangeStatement(f"UPDATE {table}\nSET {sets}\nWHERE {where};")


def _assignments(change: ChangeRow, image: Mapping[str, object], names: list[str]) -> str:
    types = _types(change)
    return ", ".join(f"{identifier(n)} = {literal(image[n], types.get(n))}" for n in names)


def _where(
    change: ChangeRow,
    image: Mapping[str, object],
    *,
    after: bool,
    before: Mapping[str, Any] | None = None,
) -> tuple[str, str]:
    """Return the condition that finds the row, or why there is none.

    ``before`` supplies a key column that was not sent again.
    """
    types = _types(change)
    if change.key_columns:
        # The server sends an old key only if the key changed; else the new row has the same key.
        images = (image, before or {}) if after else (image, change.new or {})
        key = {}
        for name in change.key_columns:
            source = next((candidate for candidate in images if name in candidate), None)
            if source is None:
                return "", f"the key is not wholly known: {name} was not sent"
            key[name] = source[name]
        if reason := _unwritable(key):
            return "", reason
        return " AND ".join(equals(n, v, types.get(n), key=True) for n, v in key.items()), ""
    # Without a key, compare every column, and choose one of several equal rows.
    row = {**(before or {}), **image} if after else dict(image)
    names = [name for name in _names(change) if name in row]
    if not names or len(names) < len(_names(change)):
        return "", "the table has no key we know, and the row was not sent whole"
    if reason := _unwritable(row):
        return "", reason
    conditions = " AND ".join(equals(name, row[name], types.get(name)) for name in names)
    table = table_name(change.schema, change.table or "")
    select = f"SELECT tableoid, ctid FROM {table}"  # noqa: S608 (quoted; never run here)
    note = "-- No key: one of the rows that are alike."
    return f"(tableoid, ctid) = (\n    {note}\n    {select}\n    WHERE {conditions} LIMIT 1\n)", ""


def _where_with_values(
    change: ChangeRow, table: str, where: str, image: Mapping[str, object]
) -> str:
    """Return the condition that finds the row by its key, or by all values if others have it."""
    types = _types(change)
    names = [n for n in _names(change) if n in image and n not in change.key_columns]
    conditions = " AND ".join(
        equals(n, image[n], types.get(n)) for n in names if not mark_of(image[n])
    )
    return f"""(tableoid, ctid) = (
    -- Several rows may have the key at this point: the one with these values.
    SELECT tableoid, ctid FROM (
        SELECT tableoid, ctid, count(*) OVER () AS rows, ({conditions or "true"}) AS is_alike
        FROM {table} WHERE {where}
    ) AS found WHERE is_alike OR rows = 1 LIMIT 1
)"""  # noqa: S608 (quoted; never run here)


def _message(change: ChangeRow) -> ChangeStatement:
    message = change.new or {}
    content = message.get("content")
    if content is None and "content_base64" in message:
        content_sql = f"decode({string(str(message['content_base64']))}, 'base64')"
    elif isinstance(content, Mapping):
        return ChangeStatement(None, f"content: {mark_of(content)}")
    else:
        content_sql = string(str(content or ""))
    transactional = "true" if message.get("transactional", True) else "false"
    prefix = string(str(message.get("prefix", "")))
    return ChangeStatement(
        f"SELECT pg_logical_emit_message({transactional}, {prefix}, {content_sql});"
    )


@dataclass(frozen=True, slots=True)
class TransactionUndo:
    """The statements that undo a transaction, or the reasons why there are none."""

    sql: str | None
    reasons: list[str] = field(default_factory=list)


def undo_transaction(
    changes: Sequence[ChangeRow],
    before: Mapping[tuple[int, int], BeforeImage | None],
    *,
    name: str = "",
) -> TransactionUndo:
    """Return the SQL that undoes a transaction, last change first, with constraints deferred."""
    if len(changes) > MOST_CHANGES:
        return TransactionUndo(None, [f"it has more than {MOST_CHANGES:,} changes"])
    statements, reasons, shared = [], [], _with_shared_keys(changes)
    for change in reversed(changes):
        if change.op == "M":
            continue
        previous = before.get((change.transaction_id, change.seq))
        undo = undo_sql(change, previous, shared=change.seq in shared)
        if undo.sql is None:
            table = f"{change.schema}.{change.table}"
            reasons.append(f"change {change.seq}, {table}: {undo.reason}")
        else:
            statements.append(undo.sql)
    if reasons:
        reasons.reverse()
        unlisted = len(reasons) - _MOST_REASONS
        listing = reasons[:_MOST_REASONS] + ([f"and {unlisted} more"] if unlisted > 0 else [])
        return TransactionUndo(None, listing)
    if not statements:
        return TransactionUndo(None, ["it changed no row"])
    head = comment(f"Takes transaction {name} back: {len(statements)} changes, the last one first.")
    head += comment(
        "Rows may have changed since: read before you run it. Triggers and foreign keys apply."
    )
    begin = "BEGIN;\nSET CONSTRAINTS ALL DEFERRED;" if len(statements) > 1 else "BEGIN;"
    return TransactionUndo(f"{head}{begin}\n\n" + "\n\n".join(statements) + "\n\nCOMMIT;")


def _with_shared_keys(changes: Sequence[ChangeRow]) -> set[int]:
    """Return the seqs of changes whose row had, just after them, a key that others may have had.

    A deferrable constraint allows this inside a transaction. It cannot be a replica identity, so
    the table is REPLICA IDENTITY FULL; one change must have moved a row to the key, and another
    change must have touched it.
    """
    keys: dict[int, tuple[str, str]] = {}
    for change in changes:
        if change.replica_identity == "FULL" and change.key_columns:
            old, new = change.old or {}, {**(change.old or {}), **(change.new or {})}
            names = change.key_columns
            key_before, key_after = (
                str((change.relation_id, [row.get(n) for n in names])) for row in (old, new)
            )
            keys[change.seq] = key_before, key_after
    keys_moved_to = {
        key_after for key_before, key_after in keys.values() if key_before != key_after
    }
    touched = Counter(key for pair in keys.values() for key in {*pair})
    return {seq for seq, (_, key) in keys.items() if key in keys_moved_to and touched[key] > 1}
