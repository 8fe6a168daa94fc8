"""What is different between two versions of a table: pure, from their columns alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from replview.ui.versions.renames import (
    Carried,
    carried_words,
    refuted,
    renames,
    stable_names,
)
from replview.ui.versions.shapes import Column, Shape


@dataclass(frozen=True, slots=True)
class Row:
    """One column before and after."""

    #: ``same``, ``added``, ``dropped``, ``renamed`` or ``changed``.
    kind: str
    before: Column | None
    after: Column | None
    #: What is different: ``type changed``, ``moved`` …
    words: tuple[str, ...] = ()
    #: Why we say so; or why not more.
    evidence: str = ""

    @property
    def sign(self) -> str:
        """One character for it."""
        return {"added": "+", "dropped": "−", "same": ""}.get(self.kind, "~")

    @property
    def type_changed(self) -> bool:
        """Both are there, of different types."""
        return bool(self.before and self.after and self.before.type_id != self.after.type_id)


@dataclass(frozen=True, slots=True)
class TableChange:
    """What changed of the table as a whole."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Diff:
    """Two versions compared: changed columns first, each part in the order of the table."""

    rows: tuple[Row, ...]
    table: tuple[TableChange, ...] = field(default=())

    @property
    def changed(self) -> list[Row]:
        """The columns that are not the same."""
        return [row for row in self.rows if row.kind != "same"]

    @property
    def same(self) -> int:
        """How many columns are the same."""
        return sum(row.kind == "same" for row in self.rows)

    def counts(self) -> list[tuple[int, str]]:
        """``[(1, "added"), (1, "dropped"), (1, "type"), (11, "same")]``, without zeros."""
        told: dict[str, int] = {}
        for row in self.rows:
            words = {"changed": row.words, "renamed": ("likely renamed", *row.words[1:])}
            for word in words.get(row.kind, (row.kind,)):
                short = {"type changed": "type"}.get(word, word)
                told[short] = told.get(short, 0) + 1
        order = ["added", "dropped", "likely renamed", "type"]
        rest = [word for word in told if word not in order and word != "same"]
        return [(told[w], w) for w in (*order, *rest, "same") if w in told]


def compare(
    before: Shape, after: Shape, carried: Mapping[tuple[str, str], Carried] | None = None
) -> Diff:
    """Everything that is different; ``carried``: what stored rows tell of likely renames."""
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    stable = stable_names([c.name for c in before.columns], [c.name for c in after.columns])
    pairs, notes = renames(before.columns, after.columns, stable, set(old) & set(new))
    for pair in [p for p in pairs if refuted(p, carried)]:
        notes[pair[0]] = notes[pair[1]] = f"not renamed: {carried_words(carried, pair)}"
        del pairs[pair]
    renamed_to = {new_name: old_name for old_name, new_name in pairs}
    rows = []
    for column in after.columns:
        if column.name in renamed_to:
            pair = (renamed_to[column.name], column.name)
            rows.append(_renamed(old[pair[0]], column, pairs[pair], carried, pair))
        elif column.name not in old:
            rows.append(Row("added", None, column, ("added",), notes.get(column.name, "")))
        else:
            rows.append(_both(old[column.name], column, column.name in stable))
    gone = {old_name for old_name, _ in pairs}
    for place, column in enumerate(before.columns):
        if column.name not in new and column.name not in gone:
            row = Row("dropped", column, None, ("dropped",), notes.get(column.name, ""))
            rows.insert(_place_of(rows, before.columns, place), row)
    rows.sort(key=lambda row: row.kind == "same")
    return Diff(tuple(rows), tuple(_table_changes(before, after)))


def summary(before: Shape | None, after: Shape, diff: Diff | None = None) -> str:
    """A version in a line: ``+ discount, − coupon_code, status type``."""
    if before is None:
        return "first seen"
    diff = compare(before, after) if diff is None else diff
    alone = len(diff.changed) + len(diff.table) == 1
    said = [_in_short(row, alone) for row in diff.changed]
    said += [_table_in_short(change) for change in diff.table]
    shown = said[:4] + ([f"{len(said) - 4} more"] if len(said) > 4 else [])
    return ", ".join(shown) or "the same again"


def _renamed(
    old: Column,
    new: Column,
    evidence: str,
    carried: Mapping[tuple[str, str], Carried] | None,
    pair: tuple[str, str],
) -> Row:
    words = ["likely renamed", *_key_words(old, new)]
    told = [part for part in (evidence, carried_words(carried, pair)) if part]
    return Row("renamed", old, new, tuple(words), "; ".join(told))


def _both(old: Column, new: Column, stable: bool) -> Row:
    words, told = [], []
    if old.type_id != new.type_id:
        words.append("type changed")
        if old.type_id[0] == new.type_id[0] and old.type_id[0]:
            told.append("same type, another modifier")
        elif new.custom and not old.custom:
            told.append("a custom type")
    words += _key_words(old, new)
    if not stable:
        words.append("moved")
        told.append("dropped and added anew, or the table was: its values may be others")
    return Row("changed" if words else "same", old, new, tuple(words), "; ".join(told))


def _key_words(old: Column, new: Column) -> list[str]:
    if old.key == new.key:
        return []
    return ["key"] if new.key else ["key no more"]


def _place_of(rows: Sequence[Row], columns: Sequence[Column], place: int) -> int:
    """Where a column that is gone stood, among those of now: behind the one it stood behind."""
    above = {column.name for column in columns[:place]}
    found = [n for n, row in enumerate(rows) if row.before and row.before.name in above]
    return found[-1] + 1 if found else 0


def _table_changes(before: Shape, after: Shape) -> Iterable[TableChange]:
    if before.replica_identity != after.replica_identity:
        yield TableChange("replica identity", before.replica_identity, after.replica_identity)
    if before.schema != after.schema:
        yield TableChange("schema", before.schema, after.schema)
    if before.table != after.table:
        yield TableChange("name", before.table, after.table)
    if before.key_columns != after.key_columns:
        names = [", ".join(shape.key_columns) or "none" for shape in (before, after)]
        yield TableChange("rows known by", *names)


def _in_short(row: Row, alone: bool) -> str:
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
    word = {"type changed": "type"}.get(row.words[0], row.words[0])
    return f"{row.after.name} {word}"


def _table_in_short(change: TableChange) -> str:
    if change.what == "name":
        return f"renamed from {change.before}"
    if change.what == "schema":
        return f"moved from {change.before}"
    return f"{change.what} {change.before} → {change.after}"
