"""Conditions on values as SQL over ``change``, compared as the columns' types.

Three-valued: NULL where the change alone does not tell, since the server did not send the value (an
unchanged TOAST value, the old row) or the store holds a mark in its place. That is asked again with
the row's before image filled in, by the same SQL.

Numbers and times are read as such, which their source had checked. Where that fails all the same,
the careful form is asked instead, several times as slow: what is no number or time is neither more
nor less.
"""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.relation_shapes import VersionShape
from replview.store.read.seen import pattern_of
from replview.store.read.session import ReadSession
from replview.store.read.value_filter import Condition, Value, ValueFilter, WhereProblem

_BY_OID = {
    **dict.fromkeys((20, 21, 23, 26), "integer"), **dict.fromkeys((700, 701, 1700), "number"),
    **dict.fromkeys((1082, 1114, 1184), "time"), 16: "boolean",
}  # fmt: skip
#: The first identifier of what is not built in: a domain, an enum.
_FIRST_OWN_OID = 16384
_BY_NAME = (
    (re.compile(r"(smallint|integer|bigint|oid)$"), "integer"),
    (re.compile(r"(numeric|decimal|real|double precision)\b[^\[]*$"), "number"),
    (re.compile(r"(date|timestamp)\b[^\[]*$"), "time"),
    (re.compile(r"boolean$"), "boolean"),
)
_BOOLEANS = {"true": "t", "t": "t", "yes": "t", "on": "t", "1": "t",
             "false": "f", "f": "f", "no": "f", "off": "f", "0": "f"}  # fmt: skip
#: What a number to compare with looks like.
_NUMBER = r"^([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?|NaN|-?Infinity)$"
#: Such a number has fewer characters.
_LONGEST_NUMBER = 400


@dataclass(slots=True)
class Predicate:
    """SQL over ``change c`` and its named parameters."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


def family_of(column: dict[str, Any]) -> str:
    """``integer``, ``number``, ``time``, ``boolean``, ``text``; ``unknown``: no built-in type."""
    oid, name = column.get("type_oid"), str(column.get("type") or "")
    if oid in _BY_OID:
        return _BY_OID[oid]
    for pattern, family in _BY_NAME:
        if pattern.match(name):
            return family
    return "unknown" if (oid or _FIRST_OWN_OID) >= _FIRST_OWN_OID else "text"


def predicate_for(
    session: ReadSession,
    where: ValueFilter,
    shapes: Sequence[VersionShape],
    *,
    careful: bool = False,
) -> Predicate:
    """The conditions over changes of these shapes of tables; a shape without one of the columns
    has no match.

    ``careful``: no value makes it fail. Raises ``WhereProblem`` where no shape has a column, or
    what to compare with does not fit any type the column has.
    """
    built = Predicate("")
    groups: dict[str, list[int]] = {}
    trouble: WhereProblem | None = None
    for shape in shapes:
        try:
            sql = _all_of(session, where, shape, built.parameters, careful)
        except WhereProblem as error:
            trouble = error
            continue
        if sql is not None:
            groups.setdefault(sql, []).append(shape.id)
    if not groups:
        raise trouble or WhereProblem(_no_column(where, shapes))
    covered = sum(len(ids) for ids in groups.values()) == len(shapes)
    if len(groups) == 1 and covered:
        built.sql = next(iter(groups))
        return built
    branches = []
    for number, (sql, ids) in enumerate(groups.items()):
        built.parameters[f"shapes{number}"] = ids
        branches.append(f"WHEN c.version_id = ANY(%(shapes{number})s) THEN {sql}")
    built.sql = f"CASE {' '.join(branches)} ELSE FALSE END"
    return built


def _no_column(where: ValueFilter, shapes: Iterable[VersionShape]) -> str:
    known = list(dict.fromkeys(c["name"] for shape in shapes for c in shape.columns))
    missing = [column for column in where.columns if column not in known] or where.columns
    names = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
    if not known:
        return f"no table with a column {missing[0]} has been seen"
    return f"there is no column {missing[0]}; there are {names}"


def _all_of(
    session: ReadSession,
    where: ValueFilter,
    shape: VersionShape,
    parameters: dict[str, Any],
    careful: bool,
) -> str | None:
    """All conditions over one shape; None where it lacks a column."""
    columns = {column["name"]: column for column in shape.columns}
    if any(name not in columns for name in where.columns):
        return None
    parts = []
    for number, condition in enumerate(where.conditions):
        family = family_of(columns[condition.column])
        parameters[f"column{number}"] = condition.column
        known_key = condition.column in shape.key_columns and shape.replica_identity != "FULL"
        builder = _Builder(session, condition, number, family, parameters, careful)
        parts.append(builder.build(known_key=known_key))
    return "(" + " AND ".join(parts) + ")"


@dataclass(slots=True)
class _Builder:
    """One condition over a column of one family of types."""

    session: ReadSession
    condition: Condition
    number: int
    family: str
    parameters: dict[str, Any]
    careful: bool

    def build(self, *, known_key: bool) -> str:
        """``known_key``: the server would have sent the old value, had it changed."""
        operator, value = self.condition.operator, self.condition.value
        if operator == "changed":
            return self._changed(known_key)
        if operator == "->":
            sides = [self._changed(known_key)]
            if value is not None:
                sides.append(self._is("c.new", value, "after"))
            if self.condition.before is not None:
                sides.append(self._is("c.old", self.condition.before, "before"))
            return "(" + " AND ".join(sides) + ")"
        row = "coalesce(c.new, c.old)"
        if operator in ("is null", "is not null"):
            found = self._case(row, null="TRUE", text="FALSE")
            return found if operator == "is null" else f"NOT {found}"
        assert value is not None
        return self._is(row, value, "after", operator)

    @property
    def _column(self) -> str:
        return f"%(column{self.number})s"

    def _case(self, row: str, *, null: str, text: str) -> str:
        """NULL where the value was not sent or is a mark."""
        kind = f"jsonb_typeof({row}->{self._column})"
        return f"(CASE {kind} WHEN 'string' THEN {text} WHEN 'null' THEN {null} END)"

    def _is(self, row: str, value: Value, side: str, operator: str = "=") -> str:
        if value.text is None:
            return self._case(row, null="TRUE", text="FALSE")
        compared = self._compared(f"({row}->>{self._column})", operator, value.text, side)
        return self._case(row, null="FALSE", text=compared)

    def _changed(self, known_key: bool) -> str:
        """A column absent from the new row is unchanged TOAST."""
        column, unsent = self._column, "FALSE" if known_key else "NULL::boolean"
        new, old = f"c.new->{column}", f"c.old->{column}"
        return (
            f"(CASE WHEN c.op <> 'U' THEN FALSE WHEN {new} IS NULL THEN FALSE "
            f"WHEN {old} IS NULL THEN {unsent} "
            f"WHEN 'object' IN (jsonb_typeof({new}), jsonb_typeof({old})) THEN NULL::boolean "
            f"ELSE {old} <> {new} END)"
        )

    def _compared(self, text: str, operator: str, value: str, side: str) -> str:
        """``text`` holds a string; the comparison as the column's type."""
        name = f"{self.family}_{side}{self.number}"
        sign = "<>" if operator == "!=" else operator
        if operator == "~":
            self.parameters[name] = pattern_of(value)
            return f"{text} ILIKE %({name})s"
        equal = operator in ("=", "!=")
        if self.family == "boolean" and equal:
            value = _BOOLEANS.get(value.lower(), value)
        if self.family == "integer" and equal and re.fullmatch(r"[-+]?[0-9]{1,30}", value):
            # Whole numbers are written in one way alone: no need to read each.
            self.parameters[name] = str(int(value))
            return f"{text} {sign} %({name})s"
        if self._is_number(value, equal=equal):
            self.parameters[name] = str(value)
            return self._cast(text, "numeric", f"{sign} %({name})s::numeric")
        if self.family == "time":
            self.parameters[name] = _moment(self.condition.column, value)
            return self._cast(text, "timestamptz", f"{sign} %({name})s::timestamptz")
        self.parameters[name] = value
        return f'{text} COLLATE "C" {sign} %({name})s'

    def _cast(self, text: str, type_name: str, comparison: str) -> str:
        """Compared as a type; of a type that is not built in nothing can be taken for granted."""
        cast = f"{text}::{type_name} {comparison}"
        if not self.careful and self.family != "unknown":
            return cast
        return f"(CASE WHEN {_valid(self.session, text, type_name)} THEN {cast} END)"

    def _is_number(self, value: str, *, equal: bool) -> bool:
        """Whether to compare as numbers; of an unknown type only more and less."""
        known = self.family in ("integer", "number")
        if not known and (equal or self.family != "unknown"):
            return False
        number = re.fullmatch(_NUMBER, value) is not None and len(value) < _LONGEST_NUMBER
        if known and not number:
            raise WhereProblem(f"{self.condition.column} holds numbers, and {value} is none")
        return number


def _valid(session: ReadSession, text: str, type_name: str) -> str:
    """Whether a text is of the type; before PostgreSQL 16 only plain numbers, no times, pass."""
    if session.server_version >= 160000:
        return f"pg_input_is_valid({text}, '{type_name}')"
    if type_name == "numeric":
        return f"length({text}) < {_LONGEST_NUMBER} AND {text} ~ '^-?[0-9]+([.][0-9]+)?$'"
    return "FALSE"


def _moment(column: str, value: str) -> str:
    """What a time is compared with, UTC where it names no zone."""
    if value.lower() in ("infinity", "-infinity"):
        return value.lower()
    try:
        found = dt.datetime.fromisoformat(value)
    except ValueError:
        raise WhereProblem(
            f"{column} holds times: write one like 2026-11-20 or 2026-11-20 07:57, not {value}"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).isoformat()
