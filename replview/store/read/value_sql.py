"""Conditions on values become SQL over ``change``, compared as the columns' types.

The SQL has three values. NULL means that the change alone cannot answer, since the server did not
send the value (an unchanged TOAST value, the old row) or the store holds a mark in its place. Then
the same SQL runs again with the row's before image filled in.

Values are cast to their column's type and compared by PostgreSQL's operator. The source has
validated them. If a cast fails all the same, the careful form is used, which is several times as
slow and yields NULL for such a value. Text is ordered by its bytes (collation "C"), since the
source's collation is unknown; an enum is ordered by its labels.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import sql
from psycopg.errors import UndefinedFunction

from replview.store.read.printed import FIRST_OWN_OID, ColumnType, NotOfTypeError, checked, type_of
from replview.store.read.relation_shapes import VersionShape
from replview.store.read.seen import pattern_of
from replview.store.read.session import ReadSession
from replview.store.read.value_filter import Condition, TextValue, ValueFilter, WhereProblem

#: Types whose equal values have equal text, which can be compared without a cast.
_EQUAL_TEXT = re.compile(r'text|pg_catalog."(int[248]|oid|bool|uuid|text|varchar|name)"')
_NUMERIC = 'pg_catalog."numeric"'
#: Number of digits up to which every whole number is a value of the type.
_DIGITS = {'pg_catalog."int2"': 4, 'pg_catalog."int4"': 9, 'pg_catalog."oid"': 9,
           'pg_catalog."int8"': 18}  # fmt: skip
#: Characters of a numeric value at most, in the careful form before PostgreSQL 16.
_LONGEST_NUMBER = 400


@dataclass(slots=True)
class Predicate:
    """A condition over ``change c`` as SQL, with its named parameters."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


def predicate_for(
    session: ReadSession,
    where: ValueFilter,
    shapes: Sequence[VersionShape],
    *,
    careful: bool = False,
) -> Predicate:
    """Return the conditions as a predicate over changes of these shapes.

    A shape has no match if it lacks one of the columns, or if the operand is no value of the
    column's type. With ``careful``, no stored value makes the SQL fail. Raises ``WhereProblem``
    where no shape has a column, where the operand is no value of any type the column has, and where
    PostgreSQL or the store cannot compare values of a type.
    """
    bases, relations = _bases(shapes), _relations(shapes)
    while True:
        comparing = _Comparing(session, {}, careful, bases, relations)
        try:
            return _predicate(comparing, where, shapes)
        except _LabelsReadError as error:
            # Start again, so that every condition on the enum compares by its current labels.
            bases[error.type_oid] = {**bases[error.type_oid], "labels": error.labels}
            del relations[error.type_oid]


def _predicate(
    comparing: "_Comparing", where: ValueFilter, shapes: Sequence[VersionShape]
) -> Predicate:
    built = Predicate("", comparing.parameters)
    groups: dict[str, list[int]] = {}
    trouble: WhereProblem | None = None
    for shape in shapes:
        try:
            condition = _all_of(comparing, where, shape)
        except _NoValueOfType as error:
            trouble = error
            continue
        if condition is not None:
            groups.setdefault(condition, []).append(shape.id)
    if not groups:
        raise trouble or WhereProblem(_no_column(where, shapes))
    is_complete = sum(len(ids) for ids in groups.values()) == len(shapes)
    if len(groups) == 1 and is_complete:
        built.sql = next(iter(groups))
        return built
    branches = []
    for number, (condition, ids) in enumerate(groups.items()):
        built.parameters[f"shapes{number}"] = ids
        branches.append(f"WHEN c.version_id = ANY(%(shapes{number})s) THEN {condition}")
    built.sql = f"CASE {' '.join(branches)} ELSE FALSE END"
    return built


def equality(
    session: ReadSession,
    column: dict[str, Any],
    text: str,
    value: str,
    parameters: dict[str, Any],
    *,
    careful: bool = False,
) -> str:
    """Return SQL that compares a text (given as SQL) with a value, as the column's type does.

    Its parameters are added to ``parameters``. With ``careful``, no text makes it fail.
    """
    base = column.get("base")
    bases = {int(column["type_oid"]): base} if base else {}
    return _Comparing(session, parameters, careful, bases).compared(text, column, "=", value)


def _bases(shapes: Iterable[VersionShape]) -> dict[int, dict[str, Any]]:
    """Return the base of each of the source's own types, by oid; for an enum, with most labels."""
    bases: dict[int, dict[str, Any]] = {}
    for column in (column for shape in shapes for column in shape.columns if column.get("base")):
        base, oid = column["base"], int(column["type_oid"])
        if len(base["labels"] or ()) >= len(bases.get(oid, base)["labels"] or ()):
            bases[oid] = base
    return bases


def _relations(shapes: Iterable[VersionShape]) -> dict[int, int]:
    """Return a table that has a column of each of the source's own types, by the type's oid."""
    columns = (
        (column, shape) for shape in shapes for column in shape.columns if column.get("base")
    )
    return {int(column["type_oid"]): shape.relation_id for column, shape in columns}


def _no_column(where: ValueFilter, shapes: Iterable[VersionShape]) -> str:
    known_columns = list(dict.fromkeys(c["name"] for shape in shapes for c in shape.columns))
    missing = [column for column in where.columns if column not in known_columns] or where.columns
    names = ", ".join(known_columns[:20]) + (" …" if len(known_columns) > 20 else "")
    if not known_columns:
        return f"no table with a column {missing[0]} has been seen"
    return f"there is no column {missing[0]}; there are {names}"


def _all_of(comparing: "_Comparing", where: ValueFilter, shape: VersionShape) -> str | None:
    """Return all conditions over one shape; None where it lacks a column."""
    columns = {column["name"]: column for column in shape.columns}
    if any(name not in columns for name in where.columns):
        return None
    parts = []
    for number, condition in enumerate(where.conditions):
        comparing.parameters[f"column{number}"] = condition.column
        known_key = condition.column in shape.key_columns and shape.replica_identity != "FULL"
        column = columns[condition.column]
        parts.append(_Builder(comparing, condition, number, column).build(known_key=known_key))
    return "(" + " AND ".join(parts) + ")"


@dataclass(slots=True)
class _Builder:
    """A builder of SQL for one condition over one column of a shape."""

    comparing: "_Comparing"
    condition: Condition
    number: int
    column: dict[str, Any]

    def build(self, *, known_key: bool) -> str:
        """Return the SQL; ``known_key``: the server sends the old value if this column changes."""
        operator, value = self.condition.operator, self.condition.value
        if operator == "changed":
            return self._changed(known_key)
        if operator == "->":
            conditions = [self._changed(known_key)]
            if value is not None:
                conditions.append(self._compares("c.new", value))
            if self.condition.before is not None:
                conditions.append(self._compares("c.old", self.condition.before))
            return "(" + " AND ".join(conditions) + ")"
        row = "coalesce(c.new, c.old)"
        if operator in ("is null", "is not null"):
            is_null = self._case(row, null="TRUE", text="FALSE")
            return is_null if operator == "is null" else f"NOT {is_null}"
        assert value is not None
        return self._compares(row, value, operator)

    @property
    def _name(self) -> str:
        return f"%(column{self.number})s"

    def _case(self, row: str, *, null: str, text: str) -> str:
        """Choose by the value's JSON type; NULL where the value was not sent or is a mark."""
        kind = f"jsonb_typeof({row}->{self._name})"
        return f"(CASE {kind} WHEN 'string' THEN {text} WHEN 'null' THEN {null} END)"

    def _compares(self, row: str, value: TextValue, operator: str = "=") -> str:
        if value.text is None:
            return self._case(row, null="TRUE", text="FALSE")
        text = f"({row}->>{self._name})"
        compared = self.comparing.compared(text, self.column, operator, value.text)
        return self._case(row, null="FALSE", text=compared)

    def _changed(self, known_key: bool) -> str:
        """Return SQL for "it changed"; a column absent from the new row is unchanged TOAST."""
        unsent = "FALSE" if known_key else "NULL::boolean"
        new, old = f"c.new->{self._name}", f"c.old->{self._name}"
        return (
            f"(CASE WHEN c.op <> 'U' THEN FALSE WHEN {new} IS NULL THEN FALSE "
            f"WHEN {old} IS NULL THEN {unsent} "
            f"WHEN 'object' IN (jsonb_typeof({new}), jsonb_typeof({old})) THEN NULL::boolean "
            f"ELSE {old} <> {new} END)"
        )


class _NoValueOfType(WhereProblem):
    """The operand of a comparison is no value of the column's type."""


class _LabelsReadError(Exception):
    """An enum has labels on its source that the record does not know yet."""

    def __init__(self, type_oid: int, labels: Sequence[str]) -> None:
        super().__init__(type_oid)
        self.type_oid = type_oid
        self.labels = labels


@dataclass(slots=True)
class _Comparing:
    """A builder of comparisons for all conditions and shapes; it queries each type only once."""

    session: ReadSession
    parameters: dict[str, Any]
    careful: bool
    bases: dict[int, dict[str, Any]]
    #: A table that has a column of each enum, by the type's oid: the labels can be read again
    #: there.
    relations: dict[int, int] = field(default_factory=dict)
    _types: dict[tuple[object, ...], ColumnType | None] = field(default_factory=dict)
    _made: dict[tuple[object, ...], str | _NoValueOfType] = field(default_factory=dict)

    def compared(self, text: str, column: dict[str, Any], operator: str, value: str) -> str:
        """Return SQL that compares ``text`` (SQL for a string) as the column's type.

        Raises ``WhereProblem``.
        """
        if operator == "~":
            return f"{text} ILIKE {self._parameter(pattern_of(value))}"
        oid = int(column.get("type_oid") or 0)
        identity = oid, column.get("typmod"), column.get("type")
        if identity not in self._types:
            base = self.bases.get(oid)
            self._types[identity] = type_of(self.session, {**column, "base": base})
        kind = self._types[identity]
        if kind is None:
            raise WhereProblem(_not_comparable(column, is_known=oid in self.bases))
        key = text, kind, operator, value
        if key not in self._made:
            try:
                sql_operator = "<>" if operator == "!=" else operator
                self._made[key] = self._as_type(text, kind, sql_operator, value)
            except NotOfTypeError:
                note = ""
                if kind.labels is not None:
                    self._read_labels(oid)
                    note = (
                        f": when it was last read from the source, it had "
                        f"{_first_labels(kind.labels)}"
                    )
                self._made[key] = _NoValueOfType(
                    f"{column['name']} is of type {kind.full}, and {value} is no value of it{note}"
                )
        comparison = self._made[key]
        if isinstance(comparison, _NoValueOfType):
            raise comparison
        return comparison

    def _read_labels(self, oid: int) -> None:
        """Raise ``_LabelsReadError`` if the enum has other labels on the source than known."""
        read = self.session.read_labels
        if read is None or oid not in self.relations:
            return
        labels = read(self.relations[oid], oid, str(self.bases[oid]["name"]))
        if labels is not None and list(labels) != self.bases[oid]["labels"]:
            raise _LabelsReadError(oid, labels)

    def _parameter(self, value: object) -> str:
        name = next((n for n, parameter in self.parameters.items() if parameter == value), None)
        if name is None:
            name = f"value{len(self.parameters)}"
            self.parameters[name] = value
        return f"%({name})s"

    def _as_type(self, text: str, kind: ColumnType, operator: str, value: str) -> str:
        """Return the comparison as SQL.

        Raises ``NotOfTypeError``, and ``WhereProblem`` where the type has no such operator.
        """
        if kind.labels is not None:
            if value not in kind.labels:
                raise NotOfTypeError(kind.full)
            if operator not in ("=", "<>"):
                labels = f"{self._parameter(list(kind.labels))}::text[]"
                places = (
                    f"array_position({labels}, {operand})" for operand in (text, self._text(value))
                )
                return f" {operator} ".join(places)
        elif kind.sql in _DIGITS and not re.fullmatch(
            rf"\s*[-+]?[0-9]{{1,{_DIGITS[kind.sql]}}}\s*", value
        ):
            # Compare an integer column with an operand like 1.5 as numeric, as PostgreSQL does.
            kind = replace(kind, sql=_NUMERIC)
        text_sql = sql.SQL("format('%%s', typed.value::{})").format(sql.SQL(kind.sql))
        printed = checked(self.session, kind.sql, text_sql, value)
        if not kind.ordered:
            self._check_operator(kind, operator)
        if kind.caseless:
            # The built-in collation folds all letters, whatever the locale of this database.
            has_c_utf8 = self.session.server_version >= 170000
            collation = ' COLLATE "pg_c_utf8"' if has_c_utf8 else ""
            return f"lower({text}{collation}) {operator} lower({self._text(value)}{collation})"
        if operator in ("=", "<>") and _EQUAL_TEXT.fullmatch(kind.sql):
            return f'{text} COLLATE "C" {operator} {self._parameter(printed)}'
        collation = ' COLLATE "C"' if kind.collatable else ""
        cast = f"{text}::{kind.sql}{collation} {operator} {self._parameter(value)}::{kind.sql}"
        if not self.careful:
            return cast
        return f"(CASE WHEN {_valid(self.session, text, kind.sql)} THEN {cast} END)"

    def _text(self, value: str) -> str:
        return f"{self._parameter(value)}::text"

    def _check_operator(self, kind: ColumnType, operator: str) -> None:
        # For an array, PostgreSQL looks up the operator of its elements only if the value is not
        # NULL.
        operand = ("'{}'" if kind.is_array else "NULL") + f"::{kind.sql}"
        collation = ' COLLATE "C"' if kind.collatable else ""
        try:
            with self.session.savepoint():
                self.session.rows(f"SELECT {operand}{collation} {operator} {operand}")
        except self.session.database_error as error:
            if not isinstance(error.__cause__ or error, UndefinedFunction):
                raise
            shown = "=" if operator == "<>" else operator
            raise WhereProblem(
                f"PostgreSQL has no operator {shown} for the type {kind.full}: look for a text in "
                "its values with ~"
            ) from None


def _not_comparable(column: dict[str, Any], *, is_known: bool) -> str:
    name, type_name = column["name"], column.get("type") or "that is not recorded"
    of_source = int(column.get("type_oid") or 0) >= FIRST_OWN_OID
    why = "which only the source can compare"
    if of_source and not is_known:
        why = "whose definition is read when the slot's receiver next connects to the source"
    return f"{name} has the type {type_name}, {why}; look for a text in its values with ~"


def _first_labels(labels: Sequence[str]) -> str:
    return ", ".join(labels[:20]) + (" …" if len(labels) > 20 else "")


def _valid(session: ReadSession, text: str, type_name: str) -> str:
    """Return SQL that is true for a text of the type; before PostgreSQL 16 for plain numbers."""
    if session.server_version >= 160000:
        return f"pg_input_is_valid({text}, '{type_name}')"
    if type_name == _NUMERIC:
        return f"length({text}) < {_LONGEST_NUMBER} AND {text} ~ '^-?[0-9]+([.][0-9]+)?$'"
    return "FALSE"
