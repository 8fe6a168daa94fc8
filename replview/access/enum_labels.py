"""Read an enum's current labels from its source.

The record has the labels of the time when the slot's receiver last connected.
"""

import time
from collections.abc import Sequence

from replview.catalog.columns import type_bases
from replview.catalog.connections import reading
from replview.catalog.problems import SourceProblem
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Relation

#: Seconds that a page waits for a source.
_DEADLINE_SECONDS = 3.0
#: Least seconds between two queries of a source for one type.
_PAUSE_SECONDS = 5.0

#: Labels of each type that was queried within the pause: ``{(source, oid): (time, labels)}``.
_labels_by_type: dict[tuple[int, int], tuple[float, Sequence[str] | None]] = {}


def labels_now(relation_id: int, type_oid: int, name: str) -> Sequence[str] | None:
    """Return the labels of a column's enum in order, or None where its source has none to give.

    ``type_oid`` may belong to a domain over the enum; ``name`` is the enum's. None also where the
    source cannot be reached.
    """
    relation = Relation.objects.select_related("slot__source").filter(pk=relation_id).first()
    if relation is None:
        return None
    source = relation.slot.source
    queried_at, labels = _labels_by_type.get((source.pk, type_oid), (-_PAUSE_SECONDS, None))
    now = time.monotonic()
    if now - queried_at < _PAUSE_SECONDS:
        return labels
    try:
        with reading(full_conninfo(source), deadline_seconds=_DEADLINE_SECONDS) as connection:
            base = type_bases(connection, [type_oid]).get(type_oid)
    except (SourceProblem, *UNUSABLE):
        base = None
    labels = base["labels"] if base is not None and base["name"] == name else None
    for key, (queried_at, _) in list(_labels_by_type.items()):
        if now - queried_at >= _PAUSE_SECONDS:
            _labels_by_type.pop(key, None)
    _labels_by_type[source.pk, type_oid] = now, labels
    return labels
