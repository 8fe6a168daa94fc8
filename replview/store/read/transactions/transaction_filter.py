"""A transaction filter has the same parameters in pages, the API and the command line."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from psycopg import sql

from decoder.scalars import LSN
from replview.store.read.history import HIDDEN_STATES
from replview.store.read.seen import (
    TextLimits,
    all_tables,
    incarnations_without_messages,
    tables_without_size,
    text_limits,
)
from replview.store.read.session import ReadSession
from replview.store.read.transactions.conditions import COMMITTED_TIME, Conditions
from replview.store.read.transactions.field_matches import Candidate
from replview.store.read.transactions.fields import FIELDS, Field
from replview.store.read.transactions.filter_values import (
    OPERATIONS,
    read_time,
    resolved_states,
    write_value,
)
from replview.text.parsing import clean_text

_TEXT_LIMIT = 4000
_NOT_HIDDEN = sql.SQL("t.state NOT IN ({})").format(
    sql.SQL(", ").join(map(sql.Literal, HIDDEN_STATES))
)
_SHOWS_SIZE = sql.SQL(
    "NOT t.relations ?| %(untold)s::text[]"
    " AND (t.messages = 0 OR t.incarnation_id <> ALL(%(untold_messages)s::bigint[]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Conditions on transactions; an empty filter matches all that are not hidden.

    Hidden are half received ones and baselines still being read. Each attribute has an entry in
    ``FIELDS``.
    """

    #: ``source/name``; empty: all slots.
    slot: str = ""
    #: Names in the form of ``read_table_word``; a transaction that touched one of these tables
    #: matches.
    tables: tuple[str, ...] = ()
    #: Letters of ``OPERATIONS``; with ``tables``, done to one of them.
    ops: str = OPERATIONS
    states: tuple[str, ...] = ()
    actor: str = ""
    origin: str = ""
    #: Text to find in gid, xid, actor, origin, table names and values of the first 200 changes.
    text: str = ""
    #: A gid or an xid that must be equal.
    id: str = ""
    #: Number of changes at least, without those of aborted subtransactions.
    min_changes: int = 0
    min_bytes: int = 0
    #: Seconds at least that it was, or has been, prepared.
    prepared_min: int = 0
    #: An ISO time (without a zone: UTC) or an age like ``2h`` or ``7d``, as given.
    since: str = ""
    until: str = ""
    from_lsn: LSN | None = None
    to_lsn: LSN | None = None
    #: Names of the parameters that were not understood, and therefore ignored.
    misread: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    @classmethod
    def from_words(cls, words: Mapping[str, object]) -> Self:
        """Read the parameters of an address or the options of a command."""
        values: dict[str, Any] = {}
        misread: list[str] = []
        for field in FIELDS:
            if text := _clean(words.get(field.parameter), strip=not field.exact):
                if value := field.read(text):
                    values[field.name] = value
                else:
                    misread.append(field.parameter)
        return cls(**values, misread=tuple(misread))

    def words(self) -> dict[str, str]:
        """Return the parameters that are set, in the form that ``from_words`` reads."""
        return {field.parameter: write_value(value) for field, value in self.restricting()}

    def sentence(self) -> str:
        """Return ``by alice, that updated or deleted in orders``; empty without a condition."""
        in_order = sorted(self.restricting(), key=lambda entry: entry[0].part)
        parts = (field.part_of_sentence(value, self) for field, value in in_order)
        return ", ".join(filter(None, parts))

    def conditions(
        self, limits: TextLimits | None = None, *, time: sql.Composable = COMMITTED_TIME
    ) -> Conditions:
        """Return the conditions in SQL, for rows whose moment is ``time``.

        ``limits`` says what a search for a text leaves out.
        """
        conditions = Conditions(time=time, limits=limits or TextLimits())
        for field, value in self.restricting():
            if field.add_sql is not None:
                field.add_sql(conditions, value, self)
        if not self.states:
            # These are hidden. They have no commit_seq, so that blocks need no condition.
            conditions.rows.append(_NOT_HIDDEN)
        return conditions

    def predicate(self) -> Callable[[Candidate], bool]:
        """Return the function that says whether a transaction matches, as the SQL does.

        Raises ``ValueError`` for a field without a predicate.
        """
        tests = []
        for field, value in self.restricting():
            if field.matches is None:
                raise ValueError(f"{field.name} has no predicate")
            tests.append((field.matches, value))

        def matches(candidate: Candidate) -> bool:
            if not self.states and candidate.row.state in HIDDEN_STATES:
                return False
            # This runs for each browser, and a generator would take longer than most tests.
            for test, value in tests:  # noqa: SIM110
                if not test(candidate, value, self):
                    return False
            return True

        return matches

    def restricting(self) -> list[tuple[Field, Any]]:
        """Return the fields that restrict the filter, each with its value."""
        values = ((field, getattr(self, field.name)) for field in FIELDS)
        return [(field, value) for field, value in values if value and value != field.default]

    @property
    def since_at(self) -> dt.datetime | None:
        """Return the moment that ``since`` means now."""
        return read_time(self.since)

    @property
    def until_at(self) -> dt.datetime | None:
        """Return the moment that ``until`` means now."""
        return read_time(self.until)

    @property
    def wanted_states(self) -> frozenset[str]:
        """Return the states that match, with ``OPEN`` resolved; all if none is named."""
        return resolved_states(self.states)

    @property
    def narrowed(self) -> bool:
        """Return whether the filter has a condition other than the slot."""
        return bool(self.words().keys() - {"slot"})


def conditions_of(
    session: ReadSession, filter_: TransactionFilter, *, time: sql.Composable = COMMITTED_TIME
) -> Conditions:
    """Return the conditions in SQL, without what the reader has no right to search for."""
    limits = text_limits(session, all_tables(session)) if filter_.text else None
    conditions = filter_.conditions(limits, time=time)
    if filter_.min_bytes and not session.visibility.open:
        conditions.add(
            _SHOWS_SIZE,
            untold=tables_without_size(session),
            untold_messages=incarnations_without_messages(session),
        )
    return conditions


def _clean(value: object, *, strip: bool) -> str:
    """Return the value as text; the members of a list are joined by commas."""
    if isinstance(value, list | tuple | set | frozenset):
        value = ",".join(str(member) for member in value)
    return clean_text(value, _TEXT_LIMIT, strip=strip)
