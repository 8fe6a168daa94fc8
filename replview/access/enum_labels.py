"""The labels of an enum as its source has them now: the record has them as they were when the
slot's receiver last connected.
"""

import time
from collections.abc import Sequence

from replview.catalog.columns import type_bases
from replview.catalog.connections import reading
from replview.catalog.problems import SourceProblem
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Relation

#: A page waits no longer for a source.
_DEADLINE_SECONDS = 3.0
#: A source is asked for one type no more often than this.
_PAUSE_SECONDS = 5.0

#: When a type of a source was asked for, and its labels: ``{(source, oid): (time, labels)}``.
_asked: dict[tuple[int, int], tuple[float, Sequence[str] | None]] = {}


def labels_now(relation_id: int, type_oid: int, name: str) -> Sequence[str] | None:
    """Return the labels of a column's enum, in their order; None where its source cannot be asked
    or has no such enum. ``type_oid`` may be a domain's over it; ``name`` is the enum's.
    """
    relation = Relation.objects.select_related("slot__source").filter(pk=relation_id).first()
    if relation is None:
        return None
    source = relation.slot.source
    at, labels = _asked.get((source.pk, type_oid), (-_PAUSE_SECONDS, None))
    now = time.monotonic()
    if now - at < _PAUSE_SECONDS:
        return labels
    try:
        with reading(full_conninfo(source), deadline_seconds=_DEADLINE_SECONDS) as connection:
            found = type_bases(connection, [type_oid]).get(type_oid)
    except (SourceProblem, *UNUSABLE):
        found = None
    labels = found["labels"] if found is not None and found["name"] == name else None
    _asked[source.pk, type_oid] = now, labels
    return labels
