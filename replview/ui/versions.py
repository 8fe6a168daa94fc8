"""Compare two versions of a table, and find columns that were probably renamed.

The module is pure: it reads no store.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replview.store.read.relation_shapes import made_anew
from replview.text.formats import FIRST_USER_OID, plural, short_type

# PostgreSQL keeps the order of columns and adds new ones at the end. So a new name between columns
# that stayed is a renamed column; at the end it may be a dropped and an added one. Only the result
# is known, so a rename is called *likely*, and shown with the evidence.

#: Rows changed on both sides; if so many have no equal value, the column was not renamed.
_ENOUGH_ROWS = 3


@dataclass(frozen=True, slots=True)
class VersionColumn:
    """A column of a version."""

    name: str
    #: The type's name; empty where neither a Type message nor the catalog gave it.
    type: str
    #: (oid, typmod), which decides whether two types are equal.
    type_id: tuple[int, int]
    #: True when the column is part of the row's key.
    key: bool = False

    @property
    def custom(self) -> bool:
        """Return whether a user of the database made the type."""
        return self.type_id[0] >= FIRST_USER_OID


@dataclass(frozen=True, slots=True)
class ComparedVersion:
    """The compared parts of a version."""

    number: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[VersionColumn, ...]
    key_columns: tuple[str, ...] = ()
    #: ``RelationVersion.made``.
    made: Mapping[str, Sequence[int]] = field(default_factory=dict)


def shape_of(version: Any, type_names: Mapping[int, str] | None = None) -> ComparedVersion:
    """Return the shape of a ``RelationVersion``; ``type_names`` gives missing names, by oid."""
    names_by_oid, key = type_names or {}, tuple(version.key_columns)
    columns = []
    for column in version.columns:
        oid = int(column.get("type_oid") or 0)
        name = column.get("type") or names_by_oid.get(oid) or ""
        type_id = (oid, int(column.get("typmod") or -1)) if oid else (0, hash(name))
        columns.append(
            VersionColumn(column["name"], short_type(name), type_id, column["name"] in key)
        )
    names = version.schema, version.table, version.replica_identity
    return ComparedVersion(version.number, *names, tuple(columns), key, version.made or {})


@dataclass(frozen=True, slots=True)
class CarriedValues:
    """The rows changed before and after a schema change, and how many kept a column's value."""

    compared: int
    equal: int


def rename_candidates(before: ComparedVersion, after: ComparedVersion) -> list[tuple[str, str]]:
    """Return the columns that were probably renamed, judged by their places and types only."""
    names = {c.name for c in before.columns} & {c.name for c in after.columns}
    stable = stable_names([c.name for c in before.columns], [c.name for c in after.columns])
    return list(renames(before.columns, after.columns, stable, names)[0])


def stable_names(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Return the longest list of names that are in the same order on both sides."""
    places = {name: number for number, name in enumerate(after)}
    common = [name for name in before if name in places]
    tails: list[int] = []
    chains: list[list[str]] = []
    for name in common:
        position = bisect_left(tails, places[name])
        chain = [*(chains[position - 1] if position else []), name]
        tails[position : position + 1], chains[position : position + 1] = [places[name]], [chain]
    return set(chains[-1]) if chains else set()


def renames(
    before: Sequence[VersionColumn],
    after: Sequence[VersionColumn],
    stable: set[str],
    both: set[str],
) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """Return likely renames with their evidence, and for other columns why they are none."""
    pairs: dict[tuple[str, str], str] = {}
    notes: dict[str, str] = {}
    removed, added = _grouped(before, stable, both), _grouped(after, stable, both)
    for number, (left, right, old) in enumerate(removed):
        new, last = added[number][2], number == len(removed) - 1
        if not old or not new:
            continue
        same_types = [o.type_id == n.type_id for o, n in zip(old, new, strict=False)]
        if len(old) != len(new) or (last and len(old) > 1):
            for column in (*old, *new):
                notes[column.name] = "several at this position: a rename cannot be detected"
            continue
        for o, n, same_type in zip(old, new, same_types, strict=True):
            if same_type and (last or all(same_types)):
                pairs[o.name, n.name] = _place_words(left, right, last)
            else:
                notes[o.name] = notes[n.name] = "not renamed: types differ"
    return pairs, notes


def _grouped(
    columns: Sequence[VersionColumn], stable: set[str], both: set[str]
) -> list[tuple[str, str, list[VersionColumn]]]:
    """Return the columns of one side only, grouped by their stable neighbours."""
    groups: list[tuple[str, str, list[VersionColumn]]] = []
    left, inside = "", list[VersionColumn]()
    for column in columns:
        if column.name in stable:
            groups.append((left, column.name, inside))
            left, inside = column.name, []
        elif column.name not in both:
            inside.append(column)
    return [*groups, (left, "", inside)]


def _place_words(left: str, right: str, last: bool) -> str:
    if last:
        where = f"after {left}" if left else "the only place"
        return f"same place, {where}, and type; it may have been dropped and added"
    where = f"between {left} and {right}" if left else f"before {right}"
    return f"same place, {where}, and type; a column added would stand last"


def carried_words(
    carried: Mapping[tuple[str, str], CarriedValues] | None, pair: tuple[str, str]
) -> str:
    """Return what the values of stored rows show about a rename; empty for nothing."""
    values = (carried or {}).get(pair)
    if values is None or not values.compared:
        return ""
    rows = plural(values.compared, "row")
    if values.equal == 0:
        return f"none of {rows} changed on both sides kept its value"
    return f"{values.equal} of {rows} changed on both sides kept the value"


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column of a comparison."""

    #: ``same``, ``added``, ``dropped``, ``renamed`` or ``changed``.
    kind: str
    before: VersionColumn | None
    after: VersionColumn | None
    #: The differences: ``type changed``, ``moved`` and others.
    words: tuple[str, ...] = ()
    #: The reason for the kind, or for the doubt.
    evidence: str = ""

    @property
    def sign(self) -> str:
        """Return the sign beside the column; empty for an equal one."""
        return {"added": "+", "dropped": "−", "same": ""}.get(self.kind, "~")

    @property
    def type_changed(self) -> bool:
        """Return whether the types differ."""
        return bool(self.before and self.after and self.before.type_id != self.after.type_id)


@dataclass(frozen=True, slots=True)
class TableChange:
    """A difference of the table itself, such as its name or replica identity."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Diff:
    """A comparison of two versions: changed columns first, in the order of the table."""

    rows: tuple[ColumnChange, ...]
    table: tuple[TableChange, ...] = field(default=())

    @property
    def changed(self) -> list[ColumnChange]:
        """Return the columns that differ."""
        return [row for row in self.rows if row.kind != "same"]

    @property
    def same(self) -> int:
        """Return the number of equal columns."""
        return sum(row.kind == "same" for row in self.rows)

    def counts(self) -> list[tuple[int, str]]:
        """Return ``[(1, "added"), (1, "dropped"), (1, "type"), (11, "same")]``, without zeros."""
        numbers: Counter[str] = Counter()
        for row in self.rows:
            changed_labels = {"changed": row.words, "renamed": ("likely renamed", *row.words[1:])}
            labels = changed_labels.get(row.kind, (row.kind,))
            numbers.update("type" if word == "type changed" else word for word in labels)
        order = ["added", "dropped", "likely renamed", "type"]
        others = [word for word in numbers if word not in order and word != "same"]
        return [(numbers[w], w) for w in (*order, *others, "same") if w in numbers]


def compare(
    before: ComparedVersion,
    after: ComparedVersion,
    carried: Mapping[tuple[str, str], CarriedValues] | None = None,
) -> Diff:
    """Return all differences; ``carried`` is what stored rows show about likely renames."""
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    stable = stable_names([c.name for c in before.columns], [c.name for c in after.columns])
    pairs, notes = renames(before.columns, after.columns, stable, set(old) & set(new))
    for pair in list(pairs):
        # The values of stored rows contradict the rename.
        values = (carried or {}).get(pair)
        if values is None or values.compared < _ENOUGH_ROWS or values.equal:
            continue
        notes[pair[0]] = notes[pair[1]] = f"not renamed: {carried_words(carried, pair)}"
        del pairs[pair]
    replaced = made_anew(before.made, after.made)
    anew = {name: len(before.made[name]) == len(after.made[name]) == 3 for name in replaced}
    renamed_to = {new_name: old_name for old_name, new_name in pairs}
    rows = []
    for column in after.columns:
        if column.name in renamed_to:
            pair = (renamed_to[column.name], column.name)
            old_column = old[pair[0]]
            labels = ("likely renamed", *_key_words(old_column, column))
            reasons = filter(None, (pairs[pair], carried_words(carried, pair)))
            rows.append(ColumnChange("renamed", old_column, column, labels, "; ".join(reasons)))
        elif column.name not in old:
            rows.append(ColumnChange("added", None, column, ("added",), notes.get(column.name, "")))
        else:
            versions = old[column.name], column
            rows.append(_compared_column(*versions, column.name in stable, anew.get(column.name)))
    renamed_from = {old_name for old_name, _ in pairs}
    for number, column in enumerate(before.columns):
        if column.name not in new and column.name not in renamed_from:
            row = ColumnChange("dropped", column, None, ("dropped",), notes.get(column.name, ""))
            rows.insert(_place_of(rows, before.columns, number), row)
    rows.sort(key=lambda row: row.kind == "same")
    return Diff(tuple(rows), tuple(_table_changes(before, after)))


def summary(
    before: ComparedVersion | None, after: ComparedVersion, diff: Diff | None = None
) -> str:
    """Return a version in a line: ``+ discount, − coupon_code, status type``."""
    if before is None:
        return "first seen"
    diff = compare(before, after) if diff is None else diff
    alone = len(diff.changed) + len(diff.table) == 1
    parts = [_column_in_short(row, alone) for row in diff.changed]
    parts += [_table_in_short(change) for change in diff.table]
    shown = parts[:4] + ([f"{len(parts) - 4} more"] if len(parts) > 4 else [])
    return ", ".join(shown) or "the same again"


def _compared_column(
    old: VersionColumn, new: VersionColumn, stable: bool, anew: bool | None
) -> ColumnChange:
    """Compare a column of both versions; ``anew``: the catalog shows a rewrite (None: none)."""
    labels, reasons = [], []
    if old.type_id != new.type_id:
        labels.append("type changed")
        if old.type_id[0] == new.type_id[0] and old.type_id[0]:
            reasons.append("same type, another modifier")
        elif new.custom and not old.custom:
            reasons.append("a custom type")
    labels += _key_words(old, new)
    if not stable:
        labels.append("moved")
        reasons.append("dropped and added anew, or the table was: its values may be others")
    elif anew is not None and not labels:
        labels.append("rewritten" if anew else "perhaps rewritten")
        change_text = "dropped and added anew, or its values rewritten"
        late_text = (
            f"read when it had been altered again: whether it was {change_text} before, is unknown"
        )
        reasons.append(f"the source's catalog: {change_text if anew else late_text}")
    return ColumnChange(
        "changed" if labels else "same", old, new, tuple(labels), "; ".join(reasons)
    )


def _key_words(old: VersionColumn, new: VersionColumn) -> list[str]:
    if old.key == new.key:
        return []
    return ["key"] if new.key else ["key no more"]


def _place_of(rows: Sequence[ColumnChange], columns: Sequence[VersionColumn], number: int) -> int:
    """Return the place for a dropped column, after the column that it followed."""
    names_above = {column.name for column in columns[:number]}
    positions = [n for n, row in enumerate(rows) if row.before and row.before.name in names_above]
    return positions[-1] + 1 if positions else 0


def _table_changes(before: ComparedVersion, after: ComparedVersion) -> Iterable[TableChange]:
    if before.replica_identity != after.replica_identity:
        yield TableChange("replica identity", before.replica_identity, after.replica_identity)
    if before.schema != after.schema:
        yield TableChange("schema", before.schema, after.schema)
    if before.table != after.table:
        yield TableChange("name", before.table, after.table)
    if before.key_columns != after.key_columns:
        names = [", ".join(shape.key_columns) or "none" for shape in (before, after)]
        yield TableChange("rows known by", *names)


def _column_in_short(row: ColumnChange, alone: bool) -> str:
    if row.kind == "added" and row.after:
        return f"+ {row.after.name}" + (f" {row.after.type}" if alone and row.after.type else "")
    if row.kind == "dropped" and row.before:
        return f"− {row.before.name}"
    assert row.before is not None
    assert row.after is not None
    if row.kind == "renamed":
        return f"{row.before.name} → {row.after.name} likely renamed"
    if row.type_changed and alone:
        return f"{row.after.name} {row.before.type or 'unknown'} → {row.after.type or 'unknown'}"
    label = {"type changed": "type"}.get(row.words[0], row.words[0])
    return f"{row.after.name} {label}"


def _table_in_short(change: TableChange) -> str:
    if change.what in ("name", "schema"):
        return f"{'renamed' if change.what == 'name' else 'moved'} from {change.before}"
    return f"{change.what} {change.before} → {change.after}"
