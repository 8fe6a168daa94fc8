"""An address names a source, or what belongs to one: is it among those somebody may see?

Queries leave out what is not seen (``store.models.seen``), whatever name a form or a query holds.
This looks at the path before any view does: what it names that is of a hidden source is answered as
what does not exist. A word of a path that is in no table here is refused, and a test fails.
"""

from collections.abc import Mapping
from typing import Any

from django.http import Http404

from replview.store.models import (
    Alert,
    AlertRule,
    Export,
    Relation,
    RelationVersion,
    Slot,
    SlotPeek,
    Source,
    Transaction,
)

#: Words of addresses that name something of a source; each model leaves out what is not seen.
OF_SOURCES: Mapping[str, tuple[type[Any], str]] = {
    "source_name": (Source, "name"),
    "source_id": (Source, "pk"),
    "slot_id": (Slot, "pk"),
    "transaction_id": (Transaction, "pk"),
    "relation_id": (Relation, "pk"),
    "version_id": (RelationVersion, "pk"),
    "export_id": (Export, "pk"),
    "peek_id": (SlotPeek, "pk"),
    "alert_id": (Alert, "pk"),
    "rule_id": (AlertRule, "pk"),
}
#: Words that name nothing of a source, or something that stands with one of the above.
OF_NONE = frozenset(
    {
        # With a source's name or a transaction.
        "slot_name", "seq", "quarantine_id",
        # One's own, or an admin's.
        "page", "filter_id", "webhook_id", "draft_id", "kind", "code",
        "user_id", "group_name", "grant_id", "token_id", "erasure_id",
        # Looked for among the jobs of the sources that are seen, by the views themselves.
        "job_id",
        # Of the demo, whose one source is the shop.
        "name", "action",
    }
)  # fmt: skip


def check_objects(words: Mapping[str, Any]) -> None:
    """Raises ``Http404`` for what is not seen here; for those alone who do not see everything."""
    for word, value in words.items():
        if word in OF_SOURCES:
            model, field = OF_SOURCES[word]
            if not model.objects.filter(**{field: value}).exists():
                raise Http404("there is no such thing")
        elif word not in OF_NONE:
            raise Http404("there is no such thing")
