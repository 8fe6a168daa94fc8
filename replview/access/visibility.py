"""This module tells what the user of a request, a socket or a token may see, and opens sessions of
the record that show no more.
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
    return _visibility.get() or nobodys


def reading_session() -> DjangoSession:
    """A session of the record for whoever asks here."""
    session = DjangoSession(current_visibility())
    session.read_labels = labels_now
    return session


def visibility_for(user: Visitor) -> Visibility:
    """Return what this user may see; nothing is read before it is asked."""
    return visibility_of(lambda: user)


def visibility_of(user: Callable[[], Visitor]) -> Visibility:
    """Return what a user may see who is known only once asked for: the API has to read a token."""

    def grants() -> Grants:
        who = user()
        return Grants(rights.visible_sources(who), rights.table_patterns(who), _rules_for(who))

    return Visibility(rows, grants)


def _rules_for(user: Visitor) -> tuple[Rule, ...]:
    """The rules: those that came with the account, when they are asked for the first time."""
    read = getattr(user, "read_rules", None)
    if read is None:
        return read_rules(rows)
    setattr(user, "read_rules", None)  # noqa: B010 (an annotation of ``users_with_rights``)
    return rules_of_rows(read)


@contextmanager
def use_visibility(visibility: Visibility) -> Iterator[None]:
    """Readers within see with this one."""
    token = _visibility.set(visibility)
    try:
        yield
    finally:
        _visibility.reset(token)


def forget() -> None:
    """Read rules and rights anew at the next question: they were changed here."""
    for visibility in (nobodys, _visibility.get()):
        if visibility is not None:
            visibility.forget()
