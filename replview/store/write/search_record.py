"""Record searches in the access record.

Only a search's length and columns are recorded: its text is often a value.
"""

from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.write.access_record import Action, current_visit, is_new, note

_MOST_COLUMNS = 20


def searched_changes(wanted: WantedChanges) -> None:
    """Record a search for changes by their values, or by a text."""
    if characters := len(str(wanted.where)) + len(wanted.filter.text):
        columns = sorted(set(wanted.where.columns))[:_MOST_COLUMNS]
        _note("changes", wanted.filter, characters, columns, wanted.slot.source_id)


def searched_transactions(filter_: TransactionFilter, source_id: int | None) -> None:
    """Record a search for transactions by a text."""
    if filter_.text:
        _note("transactions", filter_, len(filter_.text), [], source_id)


def _note(
    subject: str,
    filter_: TransactionFilter,
    characters: int,
    columns: list[str],
    source_id: int | None,
) -> None:
    """Write a record, at most one a minute for the same search of a person.

    The search is remembered as a hash.
    """
    visit = current_visit()
    user = visit.who() if visit is not None else None
    search_hash = hash((filter_.text, tuple(columns), characters))
    if is_new((Action.SEARCHED, getattr(user, "pk", None), subject, filter_.tables, search_hash)):
        details = {"characters": characters, **({"columns": columns} if columns else {})}
        tables = filter_.tables
        note(Action.SEARCHED, subject=subject, source_id=source_id, tables=tables, details=details)
