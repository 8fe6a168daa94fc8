"""Write the access record: one row for each act of a person (``models.access``).

Code that carries out an act calls ``note``; the account, the address and the page are taken from
the current visit, which the middleware opens for a request. Pages that show rows call ``viewed`` as
often as they like: ``settle`` writes one record a request when the answer is complete, and none if
the same person viewed the same less than a minute ago.

A record contains no value of a row. If the store refuses the record, the request fails.
"""

import getpass
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import connection

from replview.store.models import AccessRecord

Action = AccessRecord.Action
Via = AccessRecord.Via
#: Seconds in which views of the same rows by the same person make one record.
SAME_SECONDS = 60.0
#: Number of relations that one record names; ``details`` has their total.
MOST_RELATIONS = 100
_SUBJECT_CHARACTERS = 300
_MOST_REMEMBERED = 20_000
_ADD_RECORD = """
    SELECT access_record_add(
        %(action)s, %(user_id)s, %(user_name)s, %(via)s, %(address)s, %(request_id)s, %(page)s,
        %(subject)s, %(source_id)s, %(relation_ids)s::bigint[], %(tables)s::text[],
        %(details)s::jsonb)
"""

#: Time of the last record of each kind in this process; the oldest entries are removed first.
_noted_at: dict[tuple[Any, ...], float] = {}


@dataclass(slots=True)
class RowsShown:
    """The rows that a request has shown."""

    relation_ids: set[int] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    source_id: int | None = None
    #: Number of rows; None: not counted.
    rows: int | None = None
    subject: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Visit:
    """The context of acts: a request, a socket or a command, and its user."""

    #: Returns the user. It is called only for a record, as a token's user is known late.
    who: Callable[[], Any]
    via: str = Via.PAGE
    address: str = ""
    request_id: str = ""
    #: Returns the name of the page's URL pattern, which is known once the URL is resolved.
    page: Callable[[], str] = lambda: ""
    shown: RowsShown | None = None


_visit: ContextVar[Visit | None] = ContextVar("replview_visit", default=None)


@contextmanager
def use_visit(visit: Visit) -> Iterator[Visit]:
    """Attribute records that are written in the block to this visit."""
    token = _visit.set(visit)
    try:
        yield visit
    finally:
        _visit.reset(token)


def current_visit() -> Visit | None:
    """Return the current visit; None in a command or a worker's task."""
    return _visit.get()


def note(
    action: str,
    *,
    user: AbstractBaseUser | AnonymousUser | str | None = None,
    subject: str = "",
    source_id: int | None = None,
    relation_id: int | None = None,
    details: dict[str, Any] | None = None,
    relation_ids: Iterable[int] = (),
    tables: Iterable[str] = (),
) -> None:
    """Write one record, within the current transaction if there is one.

    ``user`` is an account or a name; None: the visit's user, or that of the operating system.
    ``details`` must not contain a value of a row. Raises ``ValueError`` for an unknown action.
    """
    visit = _visit.get()
    user_id, user_name = _names(user if user is not None or visit is None else visit.who())
    if visit is None and user is None:
        user_name = command_user()
    ids = sorted({*relation_ids, *([] if relation_id is None else [relation_id])})
    table_names = sorted(set(tables))
    recorded = dict(details or {})
    if len(ids) + len(table_names) > MOST_RELATIONS:
        recorded["relations"] = len(ids) + len(table_names)
    context = visit or Visit(lambda: None, via=Via.COMMAND)
    params = {
        "action": Action(action).value, "user_id": user_id, "user_name": _clean(user_name),
        "via": context.via, "address": context.address, "request_id": context.request_id,
        "page": context.page(), "subject": _clean(subject), "source_id": source_id,
        "relation_ids": ids[:MOST_RELATIONS],
        "tables": [_clean(name) for name in table_names[: max(0, MOST_RELATIONS - len(ids))]],
        "details": _json(recorded),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_ADD_RECORD, params)


def viewed(
    *,
    relation_ids: Iterable[int] = (),
    tables: Iterable[str] = (),
    rows: int | None = None,
    source_id: int | None = None,
    subject: str = "",
    **details: Any,
) -> None:
    """Record that this request shows rows of these tables (``rows``: how many, if counted).

    A view with other ``details`` (``transaction=41``) makes a record of its own.
    """
    visit = _visit.get()
    if visit is None:
        shown = RowsShown(set(relation_ids), set(tables), source_id, rows, subject, details)
        _note_shown(shown, None)
        return
    shown = visit.shown = visit.shown or RowsShown()
    shown.relation_ids.update(relation_ids)
    shown.tables.update(tables)
    for name, value in details.items():
        # If one answer shows several transactions, none is named.
        is_same = shown.details.get(name, value) == value
        shown.details[name] = value if is_same else "several"
    shown.subject = shown.subject or subject
    shown.source_id = shown.source_id if source_id is None else source_id
    if rows is not None:
        shown.rows = (shown.rows or 0) + rows


class ShownChange(Protocol):
    """The attributes of a shown change that the access record needs."""

    @property
    def transaction_id(self) -> int:
        """Return the identifier of the change's transaction."""
        ...

    @property
    def relation_id(self) -> int | None:
        """Return the table's identifier; None in the archive, which has only names."""
        ...

    @property
    def schema(self) -> str | None:
        """Return the table's schema; None for a logical message."""
        ...

    @property
    def table(self) -> str | None:
        """Return the table's name; None for a logical message."""
        ...

    @property
    def hidden(self) -> bool:
        """Return whether the request's user may not see the change."""
        ...


def viewed_changes(changes: Iterable[ShownChange]) -> None:
    """Record that this request shows these changes, except those that are hidden from its user."""
    shown = [change for change in changes if not change.hidden]
    if not shown:
        return
    transactions = {change.transaction_id for change in shown}
    details: dict[str, Any] = {"transaction": min(transactions)} if len(transactions) == 1 else {}
    relation_ids = {change.relation_id for change in shown if change.relation_id is not None}
    # The archive has only the names of tables.
    table_names = {
        f"{change.schema}.{change.table}"
        for change in shown
        if change.relation_id is None and change.table is not None
    }
    viewed(relation_ids=relation_ids, tables=table_names, rows=len(shown), **details)


def settle(visit: Visit) -> None:
    """Write the record of what the visit viewed, unless the same was recorded just now."""
    shown, visit.shown = visit.shown, None
    if shown is None:
        return
    user = visit.who()
    key = (
        _names(user), visit.via, visit.page(), visit.address, shown.subject, shown.source_id,
        frozenset(shown.relation_ids), frozenset(shown.tables), _json(shown.details),
    )  # fmt: skip
    if not is_new(key):
        return
    try:
        with use_visit(visit):
            _note_shown(shown, user)
    except BaseException:
        _noted_at.pop(key, None)
        raise


def _note_shown(shown: RowsShown, user: AbstractBaseUser | AnonymousUser | str | None) -> None:
    row_count = {} if shown.rows is None else {"rows": shown.rows}
    note(
        Action.VIEWED_ROWS, user=user, subject=shown.subject, source_id=shown.source_id,
        relation_ids=shown.relation_ids, tables=shown.tables,
        details={**shown.details, **row_count},
    )  # fmt: skip


def is_new(key: tuple[Any, ...]) -> bool:
    """Return whether this process wrote no such record within the last minute, and remember it."""
    now = time.monotonic()
    noted_at = _noted_at.pop(key, None)
    if noted_at is not None and now - noted_at < SAME_SECONDS:
        # Keep the time of the record: constant viewing makes one record a minute.
        _noted_at[key] = noted_at
        return False
    while len(_noted_at) >= _MOST_REMEMBERED:
        _noted_at.pop(next(iter(_noted_at)), None)
    _noted_at[key] = now
    return True


def command_user() -> str:
    """Return the operating system's name of the user who runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _names(user: AbstractBaseUser | AnonymousUser | str | None) -> tuple[int | None, str]:
    if user is None or isinstance(user, str):
        return None, user or ""
    return user.pk, user.get_username()


def _clean(text: str) -> str:
    """Return a text without NUL characters, cut to one line's length."""
    return str(text).replace("\0", "\ufffd")[:_SUBJECT_CHARACTERS]


def _json(details: dict[str, Any]) -> str:
    text = orjson.dumps(details, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return text.decode().replace("\\u0000", "\ufffd")
