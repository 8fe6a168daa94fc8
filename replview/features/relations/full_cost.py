"""What REPLICA IDENTITY FULL would add for a table, as far as stored rows can tell."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from replview.store.models import RelationVersion
from replview.store.read.row_history.widths import row_widths
from replview.store.read.schema_history import SchemaHistory
from replview.text.formats import bytes_words, plural

#: A rate of less than this is of a moment, not of a day.
_LEAST = timedelta(hours=1)
#: Fewer rows tell nothing.
_ENOUGH_ROWS = 5


@dataclass(frozen=True, slots=True)
class FullCost:
    """An estimate, and what it rests on."""

    #: ``about 412 B more for each update, 404 B for each delete``.
    words: str
    #: ``about 13 MB a day at its average so far``; empty: too short a time.
    daily: str
    #: ``from 400 stored rows, values as text``.
    basis: str


def full_cost(history: SchemaHistory) -> FullCost | None:
    """None where the table sends whole rows already, or too little is stored to say."""
    current = history.current
    if current is None or current.version.replica_identity not in ("DEFAULT", "INDEX"):
        return None
    version: RelationVersion = current.version
    widths = row_widths(history.relation.pk, list(version.key_columns), len(version.columns))
    if widths is None or widths.rows < _ENOUGH_ROWS:
        return None
    about = "at least" if widths.at_least else "about"
    on_delete = max(widths.row_bytes - widths.key_bytes, 0)
    updates = sum(v.counts.updates for v in history.versions)
    deletes = sum(v.counts.deletes for v in history.versions)
    daily = ""
    first = history.periods[0].began_at if history.periods else None
    age = timezone.now() - first if first else timedelta(0)
    if age >= _LEAST and updates + deletes:
        added = (updates * widths.row_bytes + deletes * on_delete) / age.total_seconds() * 86400
        daily = f"{bytes_words(added)} a day at its average so far"
    return FullCost(
        words=f"{about} {bytes_words(widths.row_bytes)} more WAL for each update, "
        f"{bytes_words(on_delete)} for each delete",
        daily=daily,
        basis=f"an estimate from {plural(widths.rows, 'stored row')}, values as text",
    )
