"""The fields of a transaction filter: one entry says all about one parameter.

Pages, the API, commands and the live page read, search for and describe parameters by it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replview.store.read.transactions import field_matches, field_sql, field_words
from replview.store.read.transactions.conditions import Conditions
from replview.store.read.transactions.field_matches import Candidate
from replview.store.read.transactions.filter_values import (
    OPERATIONS,
    Touched,
    read_lsn,
    read_moment,
    read_number,
    read_operations,
    read_states,
    read_tables,
)
from replview.text.formats import age_words, bytes_words, count_words


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option of ``replview changes`` and ``export``, named like the field's attribute."""

    metavar: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter of a filter. Its functions are called with values that restrict the filter.

    The last argument of a function is the whole filter, for the two fields that depend on each
    other.
    """

    #: Name of the attribute of ``TransactionFilter``.
    name: str
    #: Name of the parameter, if it is not that of the attribute.
    renamed: str = ""
    #: A value that does not restrict, besides the empty one.
    default: object = None
    #: True if spaces at the ends belong to the value.
    exact: bool = False
    #: Parses the text of a parameter; an empty value: it was not understood, and is ignored.
    read: Callable[[str], Any]
    #: Adds the conditions in SQL; None: what is read is chosen by it.
    add_sql: Callable[[Conditions, Any, Touched], None] | None
    #: Returns whether a transaction matches, as in SQL; None: the live page has no such filter.
    matches: Callable[[Candidate, Any, Touched], bool] | None = None
    #: Returns the value as a part of a sentence about transactions.
    in_words: Callable[[Any, Touched], str] | None
    #: Position of that part in the sentence; equal ones are in the order of ``FIELDS``.
    part: int = 5
    #: Description in the documentation of the API.
    description: str
    #: The option of commands; None: the commands declare options of their own for it.
    option: CommandOption | None = None

    @property
    def parameter(self) -> str:
        """Return the name in addresses, in the API and in messages of the live page."""
        return self.renamed or self.name


#: All fields, in the order of an address.
FIELDS = (
    Field(name="slot", read=str, add_sql=None, in_words=None, description="`source/name`"),
    Field(
        name="tables",
        read=read_tables,
        add_sql=field_sql.add_tables,
        matches=field_matches.touches_tables,
        in_words=field_words.tables_words,
        description="`schema.table`, several with commas",
    ),
    Field(
        name="ops",
        default=OPERATIONS,
        read=read_operations,
        add_sql=field_sql.add_operations,
        matches=field_matches.has_operations,
        in_words=field_words.operations_words,
        description="some of I U D T M S: `ops=UD`",
    ),
    Field(
        name="states",
        read=read_states,
        add_sql=field_sql.add_states,
        matches=field_matches.is_in_states,
        in_words=field_words.states_words,
        part=2,
        description="committed, aborted, `rolled back`, prepared, open …",
    ),
    Field(
        name="actor",
        exact=True,
        read=str,
        add_sql=field_sql.add_actor,
        matches=field_matches.has_actor,
        in_words=field_words.actor_words,
        part=3,
        description="exactly; `?`: nobody was named",
        option=CommandOption("NAME", "only transactions of this actor; '?': of no known actor"),
    ),
    Field(
        name="origin",
        exact=True,
        read=str,
        add_sql=field_sql.add_origin,
        matches=field_matches.has_origin,
        in_words=field_words.origin_words,
        part=4,
        description="exactly; `-`: written on the source itself",
        option=CommandOption("NAME", "only transactions of this replication origin; '-': of none"),
    ),
    Field(
        name="text",
        renamed="q",
        read=str,
        add_sql=field_sql.add_text,
        matches=field_matches.has_text,
        in_words=field_words.in_frame("that hold “{}”"),
        part=6,
        description="text in names, and in values of each one's first 200 changes",
        option=CommandOption(
            "TEXT",
            "search gid, xid, actor, origin, LSN, table names, and the values of a transaction's "
            "first 200 changes",
        ),
    ),
    Field(
        name="id",
        read=str,
        add_sql=field_sql.add_id,
        in_words=field_words.in_frame("with xid or gid {}"),
        part=1,
        description="a gid or xid",
    ),
    Field(
        name="min_changes",
        read=read_number,
        add_sql=field_sql.at_least("min_changes", field_sql.CHANGES, "b.max_changes"),
        in_words=field_words.in_frame("of at least {} changes", count_words),
        description="at least so many changes",
        option=CommandOption("N", "only transactions with at least N changes"),
    ),
    Field(
        name="min_bytes",
        read=read_number,
        add_sql=field_sql.at_least("min_bytes", "t.size_bytes", "b.max_size_bytes"),
        in_words=field_words.in_frame("of at least {}", bytes_words),
        description="at least so large",
        option=CommandOption("N", "only transactions of at least N bytes"),
    ),
    Field(
        name="prepared_min",
        read=read_number,
        add_sql=field_sql.add_prepared_min,
        in_words=field_words.in_frame("prepared for at least {}", age_words),
        description="prepared for at least so many seconds",
        option=CommandOption(
            "SECONDS", "only two-phase transactions that were prepared for at least this long"
        ),
    ),
    Field(
        name="since",
        read=read_moment,
        add_sql=field_sql.add_since,
        in_words=field_words.moment_words("since"),
        description="an ISO time, or an age: `2h`, `7d`",
        option=CommandOption(
            "TIME",
            "committed at or after this ISO time (UTC if it has no zone), or an age such as 2h or "
            "7d",
        ),
    ),
    Field(
        name="until",
        read=read_moment,
        add_sql=field_sql.add_until,
        in_words=field_words.moment_words("until"),
        description="the same",
        option=CommandOption("TIME", "committed before this time"),
    ),
    Field(
        name="from_lsn",
        read=read_lsn,
        add_sql=field_sql.add_from_lsn,
        in_words=field_words.in_frame("from {}"),
        description="commits at or after it, of the slot's present incarnation",
        option=CommandOption("LSN", "commit LSN at or after this one"),
    ),
    Field(
        name="to_lsn",
        read=read_lsn,
        add_sql=field_sql.add_to_lsn,
        in_words=field_words.in_frame("to {}"),
        description="commits at or before it, of the slot's present incarnation",
        option=CommandOption("LSN", "commit LSN at or before this one"),
    ),
)
