"""The rules of ``MaskRule`` are matched against tables and columns here.

``*`` in a pattern stands for any characters, and case is ignored. A column of unknown type matches
every type pattern: it is safer to mask too much. A table pattern without a dot matches in any
schema. A rule *at ingest* removes the value before it is stored, and hides earlier stored values on
display; a rule *on display* hides stored values.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from replview.text.parsing import name_parts

#: Characters of a pattern at most.
LONGEST_PATTERN = 200
#: The query whose rows ``rules_of_rows`` reads.
RULES_SQL = """
    SELECT id, source_id, table_pattern, column_pattern, type_pattern, "when" FROM mask_rule
    ORDER BY id
"""
When = Literal["ingest", "display"]


@lru_cache(maxsize=3000)
def glob(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return the pattern as a regular expression, to be used with ``fullmatch``.

    Each piece between stars matches at its first occurrence only (an atomic group), so that the
    time grows no faster than the product of both lengths.
    """
    first, *pieces = re.split(r"\*+", pattern)
    if not pieces:
        return re.compile(re.escape(first), flags)
    *middle, last = (re.escape(piece) for piece in pieces)
    middle_pattern = "".join(f"(?>.*?{piece})" for piece in middle)
    return re.compile(f"{re.escape(first)}{middle_pattern}.*{last}", flags | re.DOTALL)


def table_readings(name: str) -> list[tuple[str, str]]:
    """Return every (schema, table) that ``schema.table`` may mean, as both may contain dots.

    The list is empty without a dot. The literal readings come first, then those without the double
    quotes that SQL has around a part.
    """
    splits = [name.split(".")]
    if '"' in name and (parts := name_parts(name)) not in splits:
        splits.append(parts)
    return [
        (".".join(parts[:dot]), ".".join(parts[dot:]))
        for parts in splits for dot in range(1, len(parts))
    ]  # fmt: skip


class MaskableColumn(Protocol):
    """A column as a rule sees it; its type is in the form of ``format_type()``, None: unknown."""

    @property
    def name(self) -> str:
        """Return the column's name."""
        ...

    @property
    def type_name(self) -> str | None:
        """Return the column's type; None: unknown."""
        ...


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column by its name and type."""

    name: str
    type_name: str | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One mask rule, with the patterns it matches."""

    id: int
    #: The source the rule applies to; None: every source.
    source_id: int | None
    table_pattern: str
    column_pattern: str
    #: Pattern of the column's type; empty: any type.
    type_pattern: str
    when: When

    def matches_table(self, source_id: int, schema: str, table: str) -> bool:
        """Return whether the rule applies to a table of this name."""
        if self.source_id is not None and self.source_id != source_id:
            return False
        name = f"{schema}.{table}" if "." in self.table_pattern else table
        return matches(self.table_pattern, name)

    def matches_column(self, name: str, type_name: str | None) -> bool:
        """Return whether the rule applies to a column of this name and type (None: unknown)."""
        if not matches(self.column_pattern, name):
            return False
        return not self.type_pattern or type_name is None or matches(self.type_pattern, type_name)


def matches(pattern: str, name: str) -> bool:
    """Return whether the whole name matches the pattern."""
    return glob(pattern, re.IGNORECASE).fullmatch(name) is not None


def any_column(rules: Iterable[Rule]) -> str:
    """Return a regular expression of PostgreSQL for columns that one of the rules may match.

    It may match more: any character stands for one that is not alphanumeric, or that has another
    case beyond ASCII.
    """
    patterns = ("".join(map(_character_pattern, rule.column_pattern)) for rule in rules)
    return f"^({'|'.join(dict.fromkeys(patterns))})$"


def _character_pattern(character: str) -> str:
    if character == "*":
        return ".*"
    is_plain = character.isascii() and character.isalnum() and character.lower() not in "iks"
    return f"[{character.lower()}{character.upper()}]" if is_plain else "."


def rules_of_rows(rows: Iterable[Sequence[Any]]) -> tuple[Rule, ...]:
    """Return the rows of ``RULES_SQL`` as rules."""
    return tuple(Rule(*row) for row in rows)


def masked_by(
    rules: Iterable[Rule],
    source_id: int,
    schema: str,
    table: str,
    columns: Sequence[MaskableColumn],
) -> dict[str, When]:
    """Return ``{column: where it is masked}`` for one shape of a table; ingest outranks display."""
    masked: dict[str, When] = {}
    for rule in rules:
        if not rule.matches_table(source_id, schema, table):
            continue
        for column in columns:
            wins = masked.get(column.name) != "ingest"
            if wins and rule.matches_column(column.name, column.type_name):
                masked[column.name] = rule.when
    return masked


def named_columns(columns: Iterable[Mapping[str, Any]]) -> list[NamedColumn]:
    """Return the names and types in ``relation_version.columns``."""
    return [NamedColumn(str(column["name"]), column.get("type")) for column in columns]
