"""Find the rows of a file that are to be erased, by the columns' statistics where possible."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from replview.parquet.archive import changes
from replview.parquet.pg_values import convert, pg_text
from replview.parquet.writing.problems import raising_problems
from replview.parquet.writing.targets import Target
from replview.store.read.row_history.trails import Key, KeySpan, TrailPosition

#: A change within its file: commit LSN, xid, seq.
Within = tuple[int | None, int | None, int]
#: A change in any file: incarnation, commit LSN, xid, seq.
FilePlace = tuple[int, int | None, int | None, int]
_PLACE = ["_commit_version", "_xid", "_seq", "_lsn", "_change_type"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileErasure:
    """An erasure, with all that is needed to apply it to files."""

    #: The erasure's number, for the note beside the files.
    erasure: int
    #: The day of the erasure, as ``2026-11-22``.
    day: str
    #: Names that source and slot have had, as in folders: a source can be renamed.
    homes: Sequence[tuple[str, str]]
    #: A table's oids on its source → the spans of its rows.
    tables: Mapping[int, Sequence[KeySpan]]
    #: A table's oid → every name it had, as SQL writes it: a slice that is not whole has only the
    #: names of its tables.
    names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    #: The changes of the rows that the record knows: oid → ``(incarnation, commit LSN, xid, seq)``.
    #: A file whose key was masked when it was written does not tell its rows.
    places: Mapping[int, Collection[FilePlace]] = field(default_factory=dict)
    #: A function that returns which of an incarnation's commit_seqs the record still has.
    recorded: Callable[[int, Collection[int]], Collection[int]] = lambda _, seqs: seqs
    #: The columns to erase; empty: all.
    columns: Sequence[str] = ()
    actor: str = ""
    alias: str = ""
    #: A text that slices were narrowed by → its replacement.
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Return the mark that replaces a value in ``_pg_raw``."""
        return orjson.dumps({"$erased": True, "$on": self.day}).decode()


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table's changes."""

    target: Target
    path: str
    #: The number of the slot's incarnation.
    incarnation: int

    def changes_within(self, spans: Sequence[KeySpan]) -> set[Within]:
        """Return the changes with a row, before or after, that belongs to one of the spans."""
        of_key: dict[Key, list[KeySpan]] = {}
        for span in spans:
            of_key.setdefault(span.key, []).append(span)
        found = set[Within]()
        for row, key in _matching(self.target.dataset(self.path), list(of_key)):
            version, xid, seq = within = _within(row)
            op = "S" if row["_change_type"] == "insert" and xid is None else ""
            lsn = changes.lsn_of(row["_lsn"])
            place = TrailPosition(self.incarnation, lsn, seq, version or 0)
            if any(span.holds(place, op) for span in of_key[key]):
                found.add(within)
        return found

    def changes_at(self, places: Collection[FilePlace]) -> set[Within]:
        """Return those of these changes that the file has."""
        mine = {(lsn, xid, seq) for number, lsn, xid, seq in places if number == self.incarnation}
        if not mine:
            return set()
        with raising_problems():
            dataset = self.target.dataset(self.path)
            found = dataset.to_table(columns=_PLACE, filter=at_places(mine)).to_pylist()
        return mine.intersection(map(_within, found))

    def unfindable(self, wanted: FileErasure, names: Collection[str], known: set[Within]) -> int:
        """Return how many changes may be of any row, besides the ``known`` ones, which are erased.

        Their key is masked in the file, and the record no longer has them.
        """
        dataset = self.target.dataset(self.path)
        columns, marked = [*_PLACE, "_commit_seq", "_pg_raw"], pc.field("_pg_raw").is_valid()
        with raising_problems():
            rows = dataset.to_table(columns=columns, filter=marked)
        masked = {
            _within(row): row["_commit_seq"]
            for row in rows.to_pylist(maps_as_pydicts="strict")
            if any(is_mark(text, "$masked") for n, text in (row["_pg_raw"] or {}).items()
                   if n in names)
        }  # fmt: skip
        masked = {within: seq for within, seq in masked.items() if within not in known}
        recorded = wanted.recorded(self.incarnation, set(masked.values())) if masked else ()
        return sum(seq not in recorded for seq in masked.values())

    def changes_under(
        self, keys: Sequence[Key], shapes: changes.ArchivedShapes
    ) -> list[changes.ArchivedChange]:
        """Return every change with a row under one of the keys, with the values of both rows."""
        dataset = self.target.dataset(self.path)
        places = {_within(row) for row, _ in _matching(dataset, keys)}
        if not places:
            return []
        with raising_problems():
            rows = dataset.to_table(filter=at_places(places))
        found = changes.changes_of(rows, shapes)
        return [each for each in found if (each.commit_lsn, each.xid, each.seq) in places]


def is_mark(text: str | None, mark: str) -> bool:
    """Return whether a text of ``_pg_raw`` is this mark."""
    # The store orders the names in a mark by their length: ``$on`` comes before ``$erased``.
    return text is not None and text.startswith('{"$') and mark in orjson.loads(text)


def _within(row: Mapping[str, Any]) -> Within:
    return row["_commit_version"], row["_xid"], row["_seq"]


def at_places(places: set[Within]) -> pc.Expression:
    """Return a filter for rows that may be of these changes: a superset."""
    lsns = pa.array(sorted({p[0] for p in places if p[0] is not None}), pa.int64())
    where = pc.field("_commit_version").isin(lsns)
    if any(p[0] is None for p in places):
        where |= pc.field("_commit_version").is_null()
    return where & pc.field("_seq").isin(pa.array(sorted({p[2] for p in places}), pa.int32()))


def _matching(
    dataset: pads.FileSystemDataset, keys: Sequence[Key]
) -> Iterator[tuple[dict[str, Any], Key]]:
    """Yield the places of rows with one of the keys, and the key, whatever the shape's own key."""
    names = changes.file_columns(dataset.schema)
    by_columns: dict[tuple[str, ...], list[Key]] = {}
    for key in keys:
        by_columns.setdefault(tuple(name for name, _ in key), []).append(key)
    for columns, mine in by_columns.items():
        if any(column not in names for column in columns):
            continue
        files = [names[column] for column in columns]
        plain: dict[tuple[Any, ...], Key] = {}
        for key in mine:
            values = _values(dataset.schema, files, key)
            if values is None:
                yield from _odd(dataset, files, key)
            else:
                plain[values] = key
        if not plain:
            continue
        where = pc.scalar(True)
        for place, name in enumerate(files):
            kind = dataset.schema.field(name).type
            where &= pc.field(name).isin(pa.array({values[place] for values in plain}, kind))
        with raising_problems():
            found = dataset.to_table(columns=[*_PLACE, *files], filter=where)
        for row in found.to_pylist():
            matched = plain.get(tuple(row[name] for name in files))
            if matched is not None:
                yield row, matched


def _values(schema: pa.Schema, files: Sequence[str], key: Key) -> tuple[Any, ...] | None:
    """Return the key's values in the columns' types; None where one does not fit, or is NULL."""
    values = []
    for name, (_, text) in zip(files, key, strict=True):
        kind = schema.field(name).type
        if text is None or pa.types.is_nested(kind):
            return None
        converted = convert([text], kind)
        if converted.raw:
            return None
        values.append(converted.array[0].as_py())
    return tuple(values)


def _odd(
    dataset: pads.FileSystemDataset, files: Sequence[str], key: Key
) -> Iterator[tuple[dict[str, Any], Key]]:
    """Yield the rows with a key that no filter can express, by a look at every row."""
    with raising_problems():
        wanted = [*_PLACE, "_pg_raw", "_not_sent", *files]
        found = dataset.to_table(columns=wanted).to_pylist(maps_as_pydicts="strict")
    kinds = [dataset.schema.field(name).type for name in files]
    for row in found:
        beside, absent = row["_pg_raw"] or {}, row["_not_sent"] or ()
        if all(
            column not in absent
            and (beside[column] if column in beside else pg_text(row[name], kind)) == text
            for name, kind, (column, text) in zip(files, kinds, key, strict=True)
        ):
            yield row, key
