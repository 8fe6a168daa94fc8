"""Changes that are not of the record (of an archive, of a look into a slot), as somebody may see
them: without a table's values where the right is missing, without those that are masked.
"""

from collections.abc import Set
from dataclasses import replace

from replview.access.visibility import reading_session
from replview.access.withheld import Withheld
from replview.store.read.relation_shapes import names_had
from replview.store.read.rows import ChangeRow
from replview.store.read.seen import masked_change
from replview.store.read.visibility import Visibility

#: Of a message that is withheld this is shown.
_MESSAGE_SHOWN = ("prefix", "transactional")


def seen_archived(
    change: ChangeRow, source_id: int, of: Withheld, visibility: Visibility
) -> ChangeRow:
    """A change of the archive; ``of`` knows its table under every name it had."""
    if visibility.open:
        return change
    if change.op == "M":
        return _seen(change, hidden=visibility.hides_messages(source_id))
    schema, table = change.schema or "", change.table or ""
    name = f"{schema}.{table}"
    hidden = of.hides(name) or visibility.hides_table(source_id, schema, table)
    masked = of.columns(name) | visibility.masked_of_table(source_id, schema, table, change.columns)
    return _seen(change, hidden=hidden, masked=masked)


def seen_peeked(change: ChangeRow, source_id: int, visibility: Visibility) -> ChangeRow:
    """A change that waits in a slot, of a table that may not be recorded at all; where it is, what
    is masked under any name it had is.
    """
    if visibility.open:
        return change
    if change.op == "M":
        return _seen(change, hidden=visibility.hides_messages(source_id))
    schema, table = change.schema or "", change.table or ""
    names = dict.fromkeys([*(change.old or {}), *(change.new or {}), *change.key_columns])
    columns = [{"name": name} for name in names]
    called = names_had(reading_session(), source_id, schema, table)
    return _seen(
        change,
        hidden=visibility.hides_table(source_id, schema, table),
        masked=frozenset().union(
            *(visibility.masked_of_table(source_id, *each, columns) for each in called)
        ),
    )


def _seen(change: ChangeRow, *, hidden: bool, masked: Set[str] = frozenset()) -> ChangeRow:
    if change.op == "T" or not (hidden or masked):
        return change
    if hidden and change.op == "M":
        shown = {name: v for name, v in (change.new or {}).items() if name in _MESSAGE_SHOWN}
        return replace(change, new=shown, hidden=True)
    if hidden:
        return replace(change, old=None, new=None, columns=[], key_columns=[], hidden=True)
    return masked_change(change, masked)
