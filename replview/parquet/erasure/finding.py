"""What is to be erased from files, and the rows of a file that are: found by the columns'
statistics where that is possible.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from replview.parquet.archive import changes
from replview.parquet.pg_values import convert, pg_text
from replview.parquet.writing.problems import raising_problems
from replview.parquet.writing.targets import Target

#: Incarnation, LSN, seq, commit LSN.
Place = tuple[int, int, int, int]
#: A change within its file: commit LSN, xid, seq.
Within = tuple[int | None, int | None, int]
#: The same, with its incarnation before it.
FilePlace = tuple[int, int | None, int | None, int]
#: A row's key: its columns and their texts, by name.
Key = tuple[tuple[str, str | None], ...]
_PLACE = ["_commit_version", "_xid", "_seq", "_lsn", "_change_type"]


@dataclass(frozen=True, slots=True)
class Span:
    """A key and between which places, both included, it was the row's."""

    key: Mapping[str, str | None]
    since: Place
    until: Place

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read it from the document that ``features.erasure.trails`` writes."""
        return cls(dict(document["key"]), tuple(document["since"]), tuple(document["until"]))

    def holds(self, place: Place, *, snapshot: bool) -> bool:
        """Whether a change under the key is the row's; a baseline's row is as of a position."""
        if snapshot:
            return self.since[::3] <= place[:2] <= self.until[::3]
        return self.since[:3] <= place[:3] <= self.until[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileErasure:
    """An act of erasing, as files need it."""

    #: Of the act, for the note beside the files.
    erasure: int
    #: ``2026-11-22``.
    day: str
    #: Source and slot as their folders may be named: a source can be renamed.
    homes: Sequence[tuple[str, str]]
    #: A table's oids on its source → the spans of its rows.
    tables: Mapping[int, Sequence[Span]]
    #: The same → every name it had, as SQL writes it: a slice that is not whole tells its tables by
    #: name alone.
    names: Mapping[int, Sequence[str]] = field(default_factory=dict)
    #: The changes of the rows that the record knew: oid → ``(incarnation, commit LSN, xid, seq)``.
    #: A file whose key was masked when it was written does not tell whose they are.
    places: Mapping[int, Collection[FilePlace]] = field(default_factory=dict)
    #: Of these places in history (``commit_seq``) of an incarnation, the ones the record has.
    recorded: Callable[[int, Collection[int]], Collection[int]] = lambda _, seqs: seqs
    #: Only these; empty: all.
    columns: Sequence[str] = ()
    actor: str = ""
    alias: str = ""
    #: A text that slices were narrowed by → what takes its place.
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """What stands in ``_pg_raw`` for a value."""
        return orjson.dumps({"$erased": True, "$on": self.day}).decode()


@dataclass(frozen=True, slots=True)
class TableFile:
    target: Target
    path: str
    #: The number of the slot's incarnation.
    incarnation: int

    def changes_within(self, spans: Sequence[Span]) -> set[Within]:
        """The changes of which a row, before or after, belongs to one of the spans."""
        of_key: dict[Key, list[Span]] = {}
        for span in spans:
            of_key.setdefault(key_of(span.key), []).append(span)
        found = set[Within]()
        for row, key in _matching(self.target.dataset(self.path), list(of_key)):
            version, xid, seq = within = _within(row)
            snapshot = row["_change_type"] == "insert" and xid is None
            place: Place = (self.incarnation, changes.lsn_of(row["_lsn"]), seq, version or 0)
            if any(span.holds(place, snapshot=snapshot) for span in of_key[key]):
                found.add(within)
        return found

    def changes_at(self, places: Collection[FilePlace]) -> set[Within]:
        """Those of these changes that the file has."""
        mine = {(lsn, xid, seq) for number, lsn, xid, seq in places if number == self.incarnation}
        if not mine:
            return set()
        with raising_problems():
            dataset = self.target.dataset(self.path)
            found = dataset.to_table(columns=_PLACE, filter=at_places(mine)).to_pylist()
        return mine.intersection(map(_within, found))

    def unfindable(self, wanted: FileErasure, names: Collection[str], known: set[Within]) -> int:
        """How many changes may be of any row: their key is masked here, and the record, which
        would tell it, has them no more; ``known`` are erased.
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
        self, keys: Sequence[Key], shapes: changes.Shapes
    ) -> list[changes.ArchivedChange]:
        """Every change with a row under one of the keys, both of its rows with their values."""
        dataset = self.target.dataset(self.path)
        places = {_within(row) for row, _ in _matching(dataset, keys)}
        if not places:
            return []
        with raising_problems():
            rows = dataset.to_table(filter=at_places(places))
        found = changes.changes_of(rows, shapes)
        return [each for each in found if (each.commit_lsn, each.xid, each.seq) in places]


def is_mark(text: str | None, mark: str) -> bool:
    """Whether what stands in ``_pg_raw`` is this mark."""
    return (text or "").startswith(f'{{"{mark}"')


def _within(row: Mapping[str, Any]) -> Within:
    return row["_commit_version"], row["_xid"], row["_seq"]


def key_of(values: Mapping[str, str | None]) -> Key:
    """A key's columns in one order, whatever theirs."""
    return tuple(sorted(values.items()))


def at_places(places: set[Within]) -> pc.Expression:
    """Rows that may be of these changes: a superset."""
    lsns = pa.array(sorted({p[0] for p in places if p[0] is not None}), pa.int64())
    where = pc.field("_commit_version").isin(lsns)
    if any(p[0] is None for p in places):
        where |= pc.field("_commit_version").is_null()
    return where & pc.field("_seq").isin(pa.array(sorted({p[2] for p in places}), pa.int32()))


def _matching(
    dataset: pads.FileSystemDataset, keys: Sequence[Key]
) -> Iterator[tuple[dict[str, Any], Key]]:
    """Places of rows with one of the keys, and which, whatever their shape knows rows by."""
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
    """The key as its columns hold it; None where one of them cannot, or is NULL."""
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
    """A key that its columns cannot be asked for: every row is looked at."""
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
