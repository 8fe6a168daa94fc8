"""Template tags that offer acts on a source or a slot, and list past ones."""

from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse

from replview.access.guard import has_all_tables
from replview.access.rights import Role, may
from replview.access.visibility import reading_session
from replview.acts.noting import declared_words
from replview.health.servers import LogicalPair
from replview.store.models import AccessRecord, Slot, Source
from replview.store.read.seen import seen_statements
from replview.ui.sentence import sentence

register = template.Library()
register.filter("sentence", sentence)

_ACTS_SHOWN = 12
_ACT_WORDS = {
    "add": "added",
    "credentials": "changed the credentials of",
    "move": "moved",
    "rename": "renamed",
    "remove": "removed",
    "create": "created",
    "adopt": "adopted",
    "start": "started",
    "stop": "stopped",
    "tables": "changed the tables of",
    "columns": "changed the columns of",
    "swept": "undid the interrupted creation of",
    "drop": "dropped",
    "settings": "changed the settings of",
    "actor install": "installed the actor trigger on",
    "actor remove": "removed the actor trigger from",
}


@register.simple_tag
def acts_on(source: Source) -> list[dict[str, Any]]:
    """Return the latest acts on a source and its slots, from the access record, newest first."""
    rows = AccessRecord.objects.filter(
        source_id=source.pk,
        action__in=[AccessRecord.Action.CHANGED_SOURCE, AccessRecord.Action.CHANGED_SLOT],
    )[:_ACTS_SHOWN]
    acts = []
    for row in rows:
        details = row.details if isinstance(row.details, dict) else {}
        slot = row.action == AccessRecord.Action.CHANGED_SLOT
        act = str(details.get("act", ""))
        acts.append(
            {
                "who": row.user_name or "an unknown user",
                "words": _ACT_WORDS.get(act, f"changed ({act})" if act else "changed"),
                "subject": row.subject,
                "at": row.at,
                "via": row.via,
                "symbol": "slot" if slot else "source",
            }
        )
    return acts


@register.filter
def of_source(feeds: dict[str, list[LogicalPair]], name: str) -> list[LogicalPair]:
    """Return the logical pairs that a source is part of."""
    return feeds.get(name, [])


@register.simple_tag
def record_url(source: Source) -> str:
    """Return the address that adds a slot to a source."""
    return f"{reverse('source-new')}record/?{urlencode({'source': source.name})}"


@register.inclusion_tag("acts/_slot_ways.html", takes_context=True)
def slot_ways(context: dict[str, Any], slot: Slot) -> dict[str, object]:
    """Return the acts that the current account may do to a slot."""
    request = context.get("request")
    user = getattr(request, "user", None)
    return {
        "slot": slot,
        "allowed": user is not None and may(user, Role.OPERATOR, slot.source_id),
        "is_admin": user is not None and may(user, Role.ADMIN, slot.source_id),
        "may_drop": may_drop(context, slot.source),
        "leaving": slot.desired == Slot.Desired.REMOVING or slot.temporary,
        "stopped": slot.desired == Slot.Desired.STOPPED,
    }


@register.inclusion_tag("acts/_declared.html")
def declared(source: Source) -> dict[str, str]:
    """Return, for a source that a file declares, a warning that the file undoes changes."""
    return {"words": declared_words(source)}


@register.simple_tag(takes_context=True)
def may_operate(context: dict[str, Any], source: Source) -> bool:
    """Return whether the current account is an operator of the source."""
    user = getattr(context.get("request"), "user", None)
    return user is not None and may(user, Role.OPERATOR, source.pk)


@register.simple_tag(takes_context=True)
def may_drop(context: dict[str, Any], source: Source) -> bool:
    """Return whether the account may drop the source's slots, which needs all its tables."""
    request = context.get("request")
    return request is not None and has_all_tables(request, source)


@register.simple_tag(takes_context=True)
def has_every_table(context: dict[str, Any], source: Source) -> bool:
    """Return whether whoever asks may act on all tables of a source at once."""
    return may_drop(context, source)


@register.filter
def seen_statement(text: str) -> str:
    """Return a statement as it may be shown to whoever asks."""
    return str(seen_statements(text, reading_session().visibility))
