"""Which columns are masked, and where: the rules of ``MaskRule``, matched against tables.

``*`` in a pattern stands for any characters, nothing regards case, and a column of unknown type
matches every type pattern: a mask had better reach too far. A table pattern without a dot matches
in any schema. A rule *at ingest* takes the value away before it is stored, and hides on display
what had been stored before; a rule *on display* hides what is stored.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from replview.text.parsing import name_parts

#: Longer patterns are refused.
LONGEST_PATTERN = 200
#: What is selected for ``rules_of_rows``.
RULES_SQL = """
    SELECT id, source_id, table_pattern, column_pattern, type_pattern, "when" FROM mask_rule
    ORDER BY id
"""


@lru_cache(maxsize=3000)
def glob(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """To be matched with ``fullmatch``, in a time that grows with both lengths and no faster: each
    piece is looked for where it comes first and nowhere else (an atomic group).
    """
    first, *rest = re.split(r"\*+", pattern)
    if not rest:
        return re.compile(re.escape(first), flags)
    *middle, last = (re.escape(piece) for piece in rest)
    found = "".join(f"(?>.*?{piece})" for piece in middle)
    return re.compile(f"{re.escape(first)}{found}.*{last}", flags | re.DOTALL)


def table_readings(name: str) -> list[tuple[str, str]]:
    """What ``schema.table`` may mean where either may have dots, too; nothing without a dot. At
    first as it stands, then without the double quotes that SQL would have around a part.
    """
    called = [name.split(".")]
    if '"' in name and (parts := name_parts(name)) not in called:
        called.append(parts)
    return [
        (".".join(parts[:place]), ".".join(parts[place:]))
        for parts in called for place in range(1, len(parts))
    ]  # fmt: skip


When = Literal["ingest", "display"]


class ColumnShape(Protocol):
    """What a rule asks of a column; its type as ``format_type()`` writes it, None: not known."""

    @property
    def name(self) -> str: ...
    @property
    def type_name(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class NamedColumn:
    name: str
    type_name: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, ready to be matched."""

    id: int
    #: None: every source.
    source_id: int | None
    table_pattern: str
    column_pattern: str
    #: Empty: any.
    type_pattern: str
    when: When

    def matches_table(self, source_id: int, schema: str, table: str) -> bool:
        if self.source_id is not None and self.source_id != source_id:
            return False
        name = f"{schema}.{table}" if "." in self.table_pattern else table
        return matches(self.table_pattern, name)

    def matches_column(self, name: str, type_name: str | None) -> bool:
        if not matches(self.column_pattern, name):
            return False
        return not self.type_pattern or type_name is None or matches(self.type_pattern, type_name)


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits the pattern."""
    return glob(pattern, re.IGNORECASE).fullmatch(name) is not None


def any_column(rules: Iterable[Rule]) -> str:
    """A regular expression of PostgreSQL that every column fits that one of the rules may be of,
    and others: each letter that has another case beyond ASCII, and what is no letter, is any.
    """
    pieces = ("".join(map(_piece, rule.column_pattern)) for rule in rules)
    return f"^({'|'.join(dict.fromkeys(pieces))})$"


def _piece(character: str) -> str:
    if character == "*":
        return ".*"
    plain = character.isascii() and character.isalnum() and character.lower() not in "iks"
    return f"[{character.lower()}{character.upper()}]" if plain else "."


def rules_of_rows(rows: Iterable[Sequence[Any]]) -> tuple[Rule, ...]:
    """Make rules of the rows of ``RULES_SQL``."""
    return tuple(Rule(*row) for row in rows)


def masked_by(
    rules: Iterable[Rule], source_id: int, schema: str, table: str, columns: Sequence[ColumnShape]
) -> dict[str, When]:
    """``{column: where it is masked}`` of one shape of a table; at ingest outweighs on display."""
    found: dict[str, When] = {}
    for rule in rules:
        if not rule.matches_table(source_id, schema, table):
            continue
        for column in columns:
            wins = found.get(column.name) != "ingest"
            if wins and rule.matches_column(column.name, column.type_name):
                found[column.name] = rule.when
    return found


def named_columns(columns: Iterable[Mapping[str, Any]]) -> list[NamedColumn]:
    """Read names and types from ``relation_version.columns``."""
    return [NamedColumn(str(column["name"]), column.get("type")) for column in columns]
