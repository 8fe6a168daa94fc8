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
from replview.text.formats import age_words, bytes_words


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option of ``replview changes`` and ``export``, named like the field's attribute."""

    metavar: str
    help: str


@dataclass(frozen=True, slots=True)
class PageInput:
    """The input of a field in the menu *More* of the transactions page."""

    label: str
    placeholder: str = ""
    most_characters: int = 200


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
    #: Adds the conditions in SQL; None: no condition, it decides which slots are read.
    add_sql: Callable[[Conditions, Any, Touched], None] | None
    #: Returns whether a transaction matches, as in SQL; None: the live page has no such filter.
    matches: Callable[[Candidate, Any, Touched], bool] | None = None
    #: Words before the value, where it stands alone; empty: no page shows it alone.
    label: str = ""
    #: Returns the value in words; None: the text of the parameter.
    shown: Callable[[Any], str] | None = None
    #: Returns the value as a part of a sentence about transactions; None: the label and the value.
    in_words: Callable[[Any, Touched], str] | None = None
    #: Position of that part in the sentence; equal ones are in the order of ``FIELDS``.
    part: int = 5
    #: Description in the documentation of the API.
    description: str
    #: None: the page has an input of its own for it.
    page_input: PageInput | None = None
    #: The option of commands; None: the commands declare options of their own for it.
    option: CommandOption | None = None

    @property
    def parameter(self) -> str:
        """Return the name in addresses, in the API and in messages of the live page."""
        return self.renamed or self.name

    @property
    def is_number(self) -> bool:
        """Return whether the values are whole numbers."""
        return self.read is read_number

    def part_of_sentence(self, value: Any, filter_: Touched) -> str:
        """Return the value as a part of a sentence; empty where another field says it."""
        if self.in_words is not None:
            return self.in_words(value, filter_)
        return f"{self.label} {(self.shown or str)(value)}" if self.label else ""


#: All fields, in the order of an address.
FIELDS = (
    Field(
        name="slot",
        read=str,
        add_sql=None,
        description="`source/name`",
    ),
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
        label="in the state",
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
        label="of origin",
        shown=field_words.origin_name,
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
        label="with the text",
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
        label="of xid or gid",
        in_words=field_words.in_frame("with xid or gid {}"),
        part=1,
        description="a gid or xid",
        page_input=PageInput("gid or xid"),
    ),
    Field(
        name="min_changes",
        read=read_number,
        add_sql=field_sql.at_least("min_changes", field_sql.CHANGES, "b.max_changes"),
        label="of at least",
        shown=field_words.changes_number,
        description="at least so many changes",
        page_input=PageInput("Changes, at least", most_characters=18),
        option=CommandOption("N", "only transactions with at least N changes"),
    ),
    Field(
        name="min_bytes",
        read=read_number,
        add_sql=field_sql.at_least("min_bytes", "t.size_bytes", "b.max_size_bytes"),
        label="of at least",
        shown=bytes_words,
        description="at least so large",
        page_input=PageInput("Bytes, at least", most_characters=18),
        option=CommandOption("N", "only transactions of at least N bytes"),
    ),
    Field(
        name="prepared_min",
        read=read_number,
        add_sql=field_sql.add_prepared_min,
        label="prepared for at least",
        shown=age_words,
        description="prepared for at least so many seconds",
        page_input=PageInput("Prepared for, seconds", most_characters=9),
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
        page_input=PageInput("Since", "2h, 7d, 2026-11-20 07:57", 40),
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
        page_input=PageInput("Until", "UTC unless it names a zone", 40),
        option=CommandOption("TIME", "committed before this time"),
    ),
    Field(
        name="from_lsn",
        read=read_lsn,
        add_sql=field_sql.add_from_lsn,
        label="from LSN",
        in_words=field_words.in_frame("from {}"),
        description="commits at or after it, of the slot's present incarnation",
        page_input=PageInput("From LSN", "2/4E91A6F0", 17),
        option=CommandOption("LSN", "commit LSN at or after this one"),
    ),
    Field(
        name="to_lsn",
        read=read_lsn,
        add_sql=field_sql.add_to_lsn,
        label="to LSN",
        in_words=field_words.in_frame("to {}"),
        description="commits at or before it, of the slot's present incarnation",
        page_input=PageInput("To LSN", most_characters=17),
        option=CommandOption("LSN", "commit LSN at or before this one"),
    ),
)
