"""This module holds the visibility of the current request, socket or token.

It also opens sessions of the record that are limited to that visibility.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from replview.access import rights
from replview.access.enum_labels import labels_now
from replview.access.rights import Visitor
from replview.store.django_session import DjangoSession, nobodys, rows
from replview.store.read.mask_rules import Rule, rules_of_rows
from replview.store.read.visibility import Grants, Visibility, read_rules

_visibility: ContextVar[Visibility | None] = ContextVar("visibility", default=None)


def current_visibility() -> Visibility:
    """Return the visibility of the current context; nobody's where none is set."""
    return _visibility.get() or nobodys


def reading_session() -> DjangoSession:
    """Return a session of the record with the current visibility."""
    session = DjangoSession(current_visibility())
    session.read_labels = labels_now
    return session


def visibility_for(user: Visitor) -> Visibility:
    """Return what this user may see; rights are read at the first question."""
    return visibility_of(lambda: user)


def visibility_of(user: Callable[[], Visitor]) -> Visibility:
    """Return the visibility of a user who is known only later: the API must read a token first."""

    def grants() -> Grants:
        account = user()
        return Grants(
            rights.visible_sources(account), rights.table_patterns(account), _rules_for(account)
        )

    return Visibility(rows, grants)


def _rules_for(user: Visitor) -> tuple[Rule, ...]:
    """Return the rules loaded with the account at the first call; query them afterwards."""
    rule_rows = getattr(user, "read_rules", None)
    if rule_rows is None:
        return read_rules(rows)
    setattr(user, "read_rules", None)  # noqa: B010 (an annotation of ``users_with_rights``)
    return rules_of_rows(rule_rows)


@contextmanager
def use_visibility(visibility: Visibility) -> Iterator[None]:
    """Make readers inside the context use this visibility."""
    token = _visibility.set(visibility)
    try:
        yield
    finally:
        _visibility.reset(token)


def forget() -> None:
    """Make the next question read rules and rights again, because they were changed here."""
    for visibility in (nobodys, _visibility.get()):
        if visibility is not None:
            visibility.forget()
