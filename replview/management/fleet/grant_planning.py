"""Declared grants, compared with those there are: who sees which source, and which tables of it."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from replview.access.accounts import give_grant, take_grant
from replview.catalog.problems import Trouble
from replview.management.fleet.declared import DeclaredGrant, Fleet
from replview.management.fleet.plans import BY, Item, Verdict
from replview.store.models import Grant, Source

Key = tuple[str, str, str]


def plan_grants(fleet: Fleet, *, prune: bool) -> list[Item]:
    """One item for each grant; those that the file does not name only where it names any."""
    if not fleet.grants:
        return []
    rows = Grant.objects.select_related("user", "group", "source")
    known = {_key_of(grant): grant for grant in rows}
    items = [_plan(declared, known.pop(_key(declared), None)) for declared in fleet.grants]
    for (kind, holder, source), grant in known.items():
        name = f"{kind} {holder} on {source or 'every source'}"
        item = Item(kind="grant", name=name, verdict=Verdict.LEFT)
        if prune:
            item.verdict = Verdict.REMOVED
            item.acts.append(_taker(grant))
        items.append(item)
    return items


def _plan(declared: DeclaredGrant, grant: Grant | None) -> Item:
    item = Item(kind="grant", name=str(declared))
    holder = _holder(declared)
    if holder is None:
        cause = f"there is no {declared.kind} {declared.holder}"
        item.refuse(Trouble("no_account", cause, "Make it first: replview account add"))
        return item
    tables = list(declared.tables)
    if grant is not None and sorted(grant.tables) == sorted(tables):
        return item
    was = None if grant is None else grant.tables or "all tables"
    item.change("sees", was, tables or "all tables")
    if grant is None:
        item.verdict = Verdict.ADDED

    def give(say: object) -> None:
        source = Source.objects.get(name=declared.source) if declared.source else None
        give_grant(holder, source, tables, by=BY)

    item.acts.append(give)
    return item


def _holder(declared: DeclaredGrant) -> Any | None:
    if declared.kind == "group":
        return Group.objects.filter(name=declared.holder).first()
    return get_user_model()._default_manager.filter(username=declared.holder).first()


def _taker(grant: Grant) -> Callable[[Any], None]:
    return lambda say: take_grant(grant)


def _key(declared: DeclaredGrant) -> Key:
    return declared.kind, declared.holder, declared.source


def _key_of(grant: Grant) -> Key:
    source = grant.source.name if grant.source else ""
    if grant.group is not None:
        return "group", grant.group.name, source
    return "user", grant.user.get_username() if grant.user else "", source
