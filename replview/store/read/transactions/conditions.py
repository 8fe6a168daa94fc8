"""The conditions of a transaction filter in SQL: on rows, and on blocks that may hold such rows.

Every value is a parameter; the SQL is built of constants alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from replview.store.read.history_places import BLOCK, PLACED_TIME
from replview.store.read.seen import TextLimits

#: SQL for the time that orders a transaction: with a commit_seq, after another end, and while open.
COMMITTED_TIME = sql.SQL(PLACED_TIME)
ENDED_TIME = sql.SQL("coalesce(t.ended_at, t.stored_at, t.received_at)")
OPEN_TIME = sql.SQL(
    "CASE WHEN t.state = 'prepared' THEN coalesce(t.prepared_at, t.received_at) "
    "ELSE t.received_at END"
)
_FIRST_ROWS = sql.SQL("(SELECT * FROM transaction t WHERE {})")
_EXPECTED = sql.SQL("(({number}) / {block}.0)")


def all_of(conditions: Sequence[sql.Composable]) -> sql.Composed:
    """Return the condition that all of these hold; without any it is true."""
    return sql.SQL(" AND ").join(conditions or [sql.SQL("true")])


def any_of(conditions: Sequence[sql.Composable]) -> sql.Composed:
    """Return the condition, in parentheses, that one of these holds; without any it is false."""
    return sql.SQL("({})").format(sql.SQL(" OR ").join(conditions or [sql.SQL("false")]))


@dataclass(slots=True)
class Conditions:
    """Conditions on rows and on blocks, with the values of their parameters."""

    #: SQL for the moment of the rows that the conditions apply to.
    time: sql.Composable
    #: What a search for a text leaves out.
    limits: TextLimits = field(default_factory=TextLimits)
    #: Conditions on ``transaction t``, all of which must hold.
    rows: list[sql.Composable] = field(default_factory=list)
    #: Conditions on ``history_block b``, false only if no transaction of the block matches.
    blocks: list[sql.Composable] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    #: SQL over ``history_block b``: about how many of the block's transactions meet a condition.
    numbers: list[sql.Composable] = field(default_factory=list)
    #: True if some condition has no such number.
    uncounted: bool = False
    #: True if an index leads to the rows, so that few others are read.
    indexed: bool = False
    #: Alternatives, each with its own index in order; every matching row meets exactly one. Empty:
    #: there is no such condition.
    index_alternatives: tuple[sql.Composable, ...] = ()
    #: True if the filter names one gid or xid.
    by_id: bool = False
    #: True if rows are tested one by one; their number is then bounded.
    searches: bool = False
    #: True if values of changes are read.
    reads_values: bool = False

    def add(
        self,
        row: sql.Composable,
        block: sql.Composable | None = None,
        number: sql.Composable | None = None,
        **values: Any,
    ) -> None:
        """Add a condition that rows are tested for one by one."""
        self.rows.append(row)
        if number is not None:
            self.numbers.append(number)
        else:
            self.uncounted = True
        if block is not None:
            self.blocks.append(block)
        self.values |= values
        self.searches = True

    def add_indexed(self, *alternatives: sql.Composable, **values: Any) -> None:
        """Add a condition by which an index, with commit_seq as its last column, leads to rows.

        Of several alternatives, each has such an index.
        """
        if len(alternatives) == 1:
            self.rows.append(alternatives[0])
        else:
            self.index_alternatives = alternatives
        self.values |= values
        self.indexed = True

    @property
    def row_sql(self) -> sql.Composed:
        """Return all conditions on ``transaction t``."""
        alternatives = [any_of(self.index_alternatives)] if self.index_alternatives else []
        return all_of([*self.rows, *alternatives])

    def first_rows(self, limited: sql.SQL, **parts: sql.Composable) -> sql.Composed:
        """Return SQL of a table ``t`` with the first rows by each of ``index_alternatives``.

        ``limited`` is the WHERE clause with order and limit. All conditions take the place of its
        ``{conditions}``, and the ``parts`` those of its other names.
        """
        by_index = [[alternative] for alternative in self.index_alternatives] or [[]]
        reads = [
            _FIRST_ROWS.format(limited.format(conditions=all_of([*self.rows, *index]), **parts))
            for index in by_index
        ]
        return sql.SQL("({}) t").format(sql.SQL(" UNION ALL ").join(reads))

    @property
    def number_sql(self) -> sql.Composable:
        """Return SQL that estimates a block's matches, taking the conditions as independent."""
        if self.uncounted or self.indexed or not self.numbers:
            return sql.SQL("NULL")
        expected = [_EXPECTED.format(number=number, block=BLOCK) for number in self.numbers]
        return sql.SQL(" * ").join([*expected, sql.Literal(BLOCK)])

    @property
    def block_sql(self) -> sql.Composed:
        """Return all conditions on ``history_block b``."""
        return all_of(self.blocks)
