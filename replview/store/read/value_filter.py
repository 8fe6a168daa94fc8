"""Conditions on the values of a row, such as ``status = paid and amount > 100``.

The text that a person types is parsed into conditions; ``store.read.value_sql`` makes a predicate
of them. User input reaches SQL only as a parameter.

=====================================  ========================================================
``status = paid``, ``!=``              the column after the change (of a deleted row: before it)
``amount > 100``, ``>= < <=``          compared as the column's type, as PostgreSQL compares it
``note ~ urgent``                      contains, whatever the case
``note is null``, ``is not null``      SQL NULL
``status changed``                     an update gave the column another value
``status: pending -> paid``            from this value to that one; ``*`` is any, ``null`` SQL NULL
=====================================  ========================================================

Several conditions are joined by ``and``. Values with blanks at their ends, quotes or the word *and*
stand in single quotes (``''`` for one quote); such column names stand in double quotes.
"""

import re
from dataclasses import dataclass

from replview.text.problem import CodedProblem

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=", "~")
#: Characters of a condition at most, and number of conditions at most.
LONGEST = 2000
MOST_CONDITIONS = 10

_COLUMN = re.compile(r"""\s*(?:"((?:[^"]|"")+)"|([^\s=<>!~:"'→]+))""")
_COMPARISON = re.compile(r"\s*(>=|<=|!=|<>|=|<|>|~)\s*")
_STATE = re.compile(r"\s+(is\s+not\s+null|is\s+null|changed)(?=\s|$)", re.IGNORECASE)
_COLON = re.compile(r"\s*:\s*")
_ARROW = re.compile(r"\s*(?:->|→)\s*")
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_UNQUOTED_BEFORE = re.compile(
    r"((?:(?!->|→|\s+and\s).)*?)(?=\s*(?:->|→)|\s+and\s|\s*$)", re.I | re.S
)
_UNQUOTED = re.compile(r"((?:(?!\s+and\s).)*?)(?=\s+and\s|\s*$)", re.IGNORECASE | re.DOTALL)
_PLAIN_COLUMN = re.compile(r"[^\s=<>!~:\"'→]+")


class WhereProblem(CodedProblem, ValueError):
    """A condition that was not understood; the message says why, in one sentence."""

    code_of_all = "bad_condition"
    status = 400


@dataclass(frozen=True, slots=True)
class TextValue:
    """A value in the server's text form; None is SQL NULL."""

    text: str | None

    def __str__(self) -> str:
        if self.text is None:
            return "null"
        risky = self.text.lower() in ("null", "*", "") or self.text != self.text.strip()
        if risky or re.search(r"'|->|→|\sand\s", self.text, re.IGNORECASE):
            return "'" + self.text.replace("'", "''") + "'"
        return self.text


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on one column."""

    column: str
    #: One of ``COMPARISONS``, ``is null``, ``is not null``, ``changed`` or ``->``.
    operator: str
    #: The operand; for ``->`` the value after the change, where None is any value.
    value: TextValue | None = None
    #: For ``->``: the value before the change; None is any value.
    before: TextValue | None = None

    @property
    def compares_both(self) -> bool:
        """Return whether the condition also asks for the row before the change."""
        return self.operator in ("changed", "->")

    def __str__(self) -> str:
        is_plain = _PLAIN_COLUMN.fullmatch(self.column)
        column = self.column if is_plain else '"' + self.column.replace('"', '""') + '"'
        if self.operator == "->":
            operands = (
                "*" if operand is None else str(operand) for operand in (self.before, self.value)
            )
            return f"{column}: {' -> '.join(operands)}"
        return " ".join([column, self.operator, *([str(self.value)] if self.value else [])])


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """Conditions that must all hold; an empty filter matches every row."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ValueFilter":
        """Parse a condition as it was typed. Raises ``WhereProblem``."""
        if len(text) > LONGEST:
            raise WhereProblem(f"a condition has at most {LONGEST} characters")
        if "\0" in text:
            raise WhereProblem("no value in PostgreSQL holds a zero byte")
        if not text.strip():
            return cls()
        condition, position = _condition(text, 0)
        conditions = [condition]
        while rest := text[position:].strip():
            conjunction = _AND.match(text, position)
            if conjunction is None:
                raise WhereProblem(
                    f"conditions are joined by “and”: not understood from “{rest}” on"
                )
            condition, position = _condition(text, conjunction.end())
            conditions.append(condition)
        if len(conditions) > MOST_CONDITIONS:
            raise WhereProblem(f"at most {MOST_CONDITIONS} conditions")
        return cls(tuple(conditions))

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def __str__(self) -> str:
        return " and ".join(str(condition) for condition in self.conditions)

    @property
    def columns(self) -> list[str]:
        """Return the columns that conditions name, without duplicates."""
        return list(dict.fromkeys(condition.column for condition in self.conditions))

    @property
    def compares_both(self) -> bool:
        """Return whether some condition also asks for the row before the change."""
        return any(condition.compares_both for condition in self.conditions)


def _condition(text: str, position: int) -> tuple[Condition, int]:
    name = _COLUMN.match(text, position)
    if name is None:
        raise WhereProblem(f"a column's name is missing at “{text[position:].strip()[:40]}”")
    column = name[2] if name[1] is None else name[1].replace('""', '"')
    position = name.end()
    if state := _STATE.match(text, position):
        return Condition(column, " ".join(state[1].lower().split())), state.end()
    if colon := _COLON.match(text, position):
        return _transition(text, column, colon.end())
    comparison = _COMPARISON.match(text, position)
    if comparison is None:
        raise WhereProblem(
            f"after {column} comes =, !=, <, <=, >, >=, ~, “is null”, “changed” or “: old -> new”; "
            "values that hold “and” stand in single quotes"
        )
    operator = "!=" if comparison[1] == "<>" else comparison[1]
    value, position = _value(text, comparison.end(), _UNQUOTED, column)
    if value.text is None:
        if operator not in ("=", "!="):
            raise WhereProblem(f"NULL is neither more nor less: write “{column} is null”")
        return Condition(column, "is null" if operator == "=" else "is not null"), position
    return Condition(column, operator, value), position


def _transition(text: str, column: str, position: int) -> tuple[Condition, int]:
    before, position = _side(text, position, _UNQUOTED_BEFORE, column)
    arrow = _ARROW.match(text, position)
    if arrow is None:
        raise WhereProblem(f"write “{column}: old -> new”, where * stands for any value")
    after, position = _side(text, arrow.end(), _UNQUOTED, column)
    if before is None and after is None:
        return Condition(column, "changed"), position
    return Condition(column, "->", after, before), position


def _side(
    text: str, position: int, pattern: re.Pattern[str], column: str
) -> tuple[TextValue | None, int]:
    """Parse one side of an arrow; None stands for any value."""
    value, end = _value(text, position, pattern, column)
    is_any = value.text == "*" and text[position : position + 1] == "*"
    return None if is_any else value, end


def _value(
    text: str, position: int, pattern: re.Pattern[str], column: str
) -> tuple[TextValue, int]:
    if quoted := _QUOTED.match(text, position):
        return TextValue(quoted[1].replace("''", "'")), quoted.end()
    match = pattern.match(text, position)
    if match is None or not (word := match[1]):
        raise WhereProblem(f"a value is missing after {column}; an empty text is written ''")
    if word.startswith("'"):
        raise WhereProblem(f"the quote after {column} is not closed")
    return TextValue(None if word.lower() == "null" else word), match.end()
