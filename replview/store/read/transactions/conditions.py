"""The conditions of a transaction filter in SQL: on rows, and on blocks that may hold such rows.

Every value is a parameter; the SQL is built of constants alone.
"""

from dataclasses import dataclass, field
from typing import Any

from replview.store.read.history_places import BLOCK, PLACED_TIME
from replview.store.read.seen import TextLimits

#: SQL for the time that orders a transaction without a commit_seq: after its end, and while open.
ENDED_TIME = "coalesce(t.ended_at, t.stored_at, t.received_at)"
OPEN_TIME = "CASE WHEN t.state = 'prepared' THEN coalesce(t.prepared_at, t.received_at) ELSE t.received_at END"  # noqa: E501


@dataclass(slots=True)
class Conditions:
    """Conditions on rows and on blocks, with the values of their parameters."""

    #: SQL for the moment of the rows that the conditions apply to.
    time: str = PLACED_TIME
    #: What a search for a text leaves out.
    limits: TextLimits = field(default_factory=TextLimits)
    #: Conditions on ``transaction t``, all of which must hold.
    rows: list[str] = field(default_factory=list)
    #: Conditions on ``history_block b``, false only if no transaction of the block matches.
    blocks: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    #: SQL over ``history_block b``: about how many of the block's transactions meet a condition.
    numbers: list[str] = field(default_factory=list)
    #: True if some condition has no such number.
    uncounted: bool = False
    #: True if an index leads to the rows, so that few others are read.
    indexed: bool = False
    #: Alternatives, each with its own index in order; every matching row meets exactly one.
    index_alternatives: tuple[str, ...] = ("true",)
    #: True if the filter names one gid or xid.
    by_id: bool = False
    #: True if rows are tested one by one; their number is then bounded.
    searches: bool = False
    #: True if values of changes are read.
    reads_values: bool = False

    def add(self, row: str, block: str = "", number: str = "", **values: Any) -> None:
        """Add a condition that rows are tested for one by one."""
        self.rows.append(row)
        if number:
            self.numbers.append(number)
        else:
            self.uncounted = True
        if block:
            self.blocks.append(block)
        self.values |= values
        self.searches = True

    def add_indexed(self, row: str, **values: Any) -> None:
        """Add a condition by which an index, with commit_seq as its last column, leads to rows."""
        self.rows.append(row)
        self.values |= values
        self.indexed = True

    @property
    def row_sql(self) -> str:
        """Return all conditions on ``transaction t``."""
        return " AND ".join(self.rows) or "true"

    @property
    def any_way(self) -> str:
        """Return the condition that one of ``index_alternatives`` holds."""
        return f"({' OR '.join(self.index_alternatives)})"

    def first_rows(self, limited: str) -> str:
        """Return SQL of a table ``t`` with the first rows by each of ``index_alternatives``.

        ``limited`` is the WHERE clause with all conditions, order and limit.
        """
        read = "(SELECT * FROM transaction t WHERE {})".format
        parts = (
            read(limited.replace(self.any_way, alternative))
            for alternative in self.index_alternatives
        )
        return f"({' UNION ALL '.join(parts)}) t"

    @property
    def number_sql(self) -> str:
        """Return SQL that estimates a block's matches, taking the conditions as independent."""
        if self.uncounted or self.indexed or not self.numbers:
            return "NULL"
        return " * ".join(f"(({number}) / {BLOCK}.0)" for number in self.numbers) + f" * {BLOCK}"

    @property
    def block_sql(self) -> str:
        """Return all conditions on ``history_block b``."""
        return " AND ".join(self.blocks) or "true"
