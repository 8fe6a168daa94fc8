"""Rewrite one file without the erased values; everything else in it stays as it was.

A value of a table's row becomes null, and its column's name is in ``_pg_raw`` with a mark, like a
value that was masked before it was stored. The footer keeps naming the file's slice.
``_erased.json`` beside the files lists the files that are rewritten.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from replview.parquet.archive.changes import ArchivedShapes, file_columns
from replview.parquet.erasure.finding import FileErasure, Within, is_mark
from replview.parquet.erasure.renaming import contains_name, renamed
from replview.parquet.writing.files import ERASED_KEY, sha256_of
from replview.parquet.writing.layout import MANIFEST, MANIFESTS
from replview.parquet.writing.problems import raising_problems
from replview.parquet.writing.row_groups import write_file
from replview.parquet.writing.targets import Target

RewriteRows = Callable[[pa.Table], tuple[pa.Table, int]]
ERASED = "_erased.json"
#: Columns with names of actors, in a table's files and in those of transactions and events. A table
#: may have columns of its own with the latter names.
NAMES_IN_TABLES = ("_actor",)
NAMES_BESIDE = ("actor", "actors", "context", "content")


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites files for one erasure."""

    target: Target
    wanted: FileErasure

    def table(self, path: str, shapes: ArchivedShapes, changes: set[Within]) -> int:
        """Rewrite a table's file; return how many of its rows named the actor."""
        return self._write(path, lambda group: self._rows(group, shapes, changes))

    def left(self, path: str, shapes: ArchivedShapes, changes: set[Within]) -> int:
        """Return how many of these changes hold a value that is to be erased."""
        found = set[Within]()
        with raising_problems(), self.target.open(path) as source:
            parquet = pq.ParquetFile(source)
            for number in range(parquet.num_row_groups if changes else 0):
                group = parquet.read_row_group(number)
                places = _places_of(group)
                rows = [n for n, place in enumerate(places) if place in changes]
                names = file_columns(group.schema)
                raws = group.column("_pg_raw")
                for row, columns in self._erased_columns(group, rows, shapes, names).items():
                    raw = raws[row].as_py(maps_as_pydicts="strict") or {}
                    if not all(is_mark(raw.get(name), "$erased") for name in columns):
                        found.add(places[row])
        return len(found)

    def naming(self, path: str) -> int:
        """Replace the actor's name in a file of transactions or events; return how many had it.

        Contexts and messages are included.
        """
        return self._write(path, lambda group: self._rename(group, NAMES_BESIDE))

    def count_naming(self, path: str, columns: Sequence[str]) -> int:
        """Return the number of a file's rows in which the actor's name would be replaced."""
        if not self.wanted.actor:
            return 0
        with raising_problems(), self.target.open(path) as source:
            parquet = pq.ParquetFile(source)
            there = [each for each in columns if each in parquet.schema_arrow.names]
            groups = (parquet.read_row_group(n, there) for n in range(parquet.num_row_groups))
            return sum(self._rename(group, there)[1] for group in groups)

    def _write(self, path: str, change: RewriteRows) -> int:
        done = 0
        with raising_problems(), self.target.open(path) as source:
            parquet = pq.ParquetFile(source)
            schema = parquet.schema_arrow
            metadata = dict(schema.metadata or {})
            acts = orjson.loads(metadata.get(ERASED_KEY, b"[]"))
            acts = sorted({*acts, self.wanted.erasure})
            schema = schema.with_metadata({**metadata, ERASED_KEY: orjson.dumps(acts)})

            def groups() -> Iterator[pa.Table]:
                nonlocal done
                for number in range(parquet.num_row_groups):
                    group, changed = change(parquet.read_row_group(number))
                    done += changed
                    yield group.cast(schema).combine_chunks()

            write_file(self.target, path, schema, groups())
        return done

    def _rows(
        self, group: pa.Table, shapes: ArchivedShapes, changes: set[Within]
    ) -> tuple[pa.Table, int]:
        """Erase the changes' rows of a table's row group, and replace the actor's name."""
        rows = [n for n, place in enumerate(_places_of(group)) if place in changes]
        group, named = self._rename(group, NAMES_IN_TABLES)
        if not rows:
            return group, named
        names = file_columns(group.schema)
        erased = self._erased_columns(group, rows, shapes, names)
        for source in {name for columns in erased.values() for name in columns}:
            mine = [row for row in rows if source in erased[row]]
            values = group.column(names[source])
            nulls = dict.fromkeys(mine, pa.nulls(1, values.type))
            group = _set(group, names[source], _pieces(values, nulls))
        maps = group.column("_pg_raw")
        raws = {row: pa.array([self._raw(group, row, erased[row])], maps.type) for row in rows}
        return _set(group, "_pg_raw", _pieces(maps, raws)), named

    def _erased_columns(
        self, group: pa.Table, rows: Sequence[int], shapes: ArchivedShapes, names: Mapping[str, str]
    ) -> dict[int, list[str]]:
        """Return row → columns of its shape that were sent and are to be erased."""
        chosen = group.select(["_relation_version", "_not_sent"]).take(pa.array(rows, pa.int64()))
        found = {}
        for row, change in zip(rows, chosen.to_pylist(), strict=True):
            shape = shapes.version(change["_relation_version"])
            absent = {*(change["_not_sent"] or ())}
            own = [str(column["name"]) for column in shape["columns"]]
            wanted = self.wanted.columns
            found[row] = [
                name for name in own
                if name in names and name not in absent and (not wanted or name in wanted)
            ]  # fmt: skip
        return found

    def _raw(self, group: pa.Table, row: int, columns: Sequence[str]) -> list[tuple[str, str]]:
        before = group.column("_pg_raw")[row].as_py(maps_as_pydicts="strict") or {}
        marks = dict.fromkeys(columns, self.wanted.mark)
        return sorted({**before, **marks}.items())

    def _rename(self, group: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, int]:
        """Replace the actor's name in a row group; return how many rows had it."""
        naming = set[int]()
        for column in columns if self.wanted.actor else ():
            if column not in group.schema.names:
                continue
            before = group.column(column).to_pylist()
            after = [value and self._without_name(column, value) for value in before]
            changed = [n for n, value in enumerate(after) if value != before[n]]
            if changed:
                naming.update(changed)
                group = _set(group, column, pa.array(after, group.schema.field(column).type))
        return group, len(naming)

    def _without_name(self, column: str, value: Any) -> Any:
        """Return a value of one of the columns with names of actors without the actor's name."""
        name, alias = self.wanted.actor, self.wanted.alias
        if column == "actors":
            return [alias if each == name else each for each in value]
        if column == "context":
            if not contains_name(value, name):
                return value
            document = orjson.loads(value)
            new = renamed(document, name, alias)
            return value if new == document else orjson.dumps(new).decode()
        if column == "content":
            # A mark may contain a short name.
            erased = value != self.wanted.mark and contains_name(value, name)
            return self.wanted.mark if erased else value
        return alias if value == name else value


def _places_of(group: pa.Table) -> list[Within]:
    columns = (group.column(name).to_pylist() for name in ("_commit_version", "_xid", "_seq"))
    return list(zip(*columns, strict=True))


def _set(group: pa.Table, name: str, values: object) -> pa.Table:
    place = group.schema.get_field_index(name)
    return group.set_column(place, group.schema.field(place), values)


def _pieces(values: pa.ChunkedArray, rows: Mapping[int, pa.Array]) -> pa.ChunkedArray:
    """Return the column with some rows replaced, without reading the others."""
    chunks: list[pa.Array] = []
    start = 0
    for row in sorted(rows):
        chunks += values.slice(start, row - start).chunks
        chunks.append(rows[row])
        start = row + 1
    chunks += values.slice(start).chunks
    return pa.chunked_array(chunks, values.type)


@dataclass(frozen=True, slots=True)
class Notes:
    """The note about an erasure in an incarnation's folder, and the manifests there."""

    target: Target
    folder: str
    wanted: FileErasure

    def rewritten(self) -> list[str]:
        """Return the files that an earlier attempt of this erasure has rewritten."""
        mine = [each for each in self._all() if each["erasure"] == self.wanted.erasure]
        paths = {path for each in mine for path in each["files"]}
        found = []
        for path in (each for each in sorted(paths) if self.target.size(each) is not None):
            with raising_problems(), self.target.open(path) as file:
                metadata = pq.ParquetFile(file).schema_arrow.metadata or {}
            if self.wanted.erasure in orjson.loads(metadata.get(ERASED_KEY, b"[]")):
                found.append(path)
        return found

    def write(self, files: Sequence[str], rows: int, *, finished: bool) -> None:
        """Note that values of these files are erased, but never which values."""
        notes = self._all()
        others = [each for each in notes if each["erasure"] != self.wanted.erasure]
        before = [int(each["rows"]) for each in notes if each not in others]
        mine = {
            "erasure": self.wanted.erasure, "on": self.wanted.day, "files": list(files),
            "rows": max([rows, *before]), "finished": finished,
        }  # fmt: skip
        document = {"format": 1, "erasures": [*others, mine]}
        self.target.write_json(f"{self.folder}/{ERASED}", document)

    def put_manifests_right(self, files: Sequence[str]) -> None:
        """Update the manifests: the files' present sizes and checksums, and no erased name."""
        sums: dict[str, tuple[str, int]] = {}
        for path in self._manifests():
            document = self.target.read_json(path) or {}
            mine = [each for each in document.get("files", ()) if each["path"] in files]
            for each in mine:
                if each["path"] not in sums:
                    with raising_problems(), self.target.open(each["path"]) as file:
                        sums[each["path"]] = sha256_of(file)
                each["sha256"], each["bytes"] = sums[each["path"]]
            named = self._clear_slice(document)
            if mine:
                document["bytes"] = sum(each["bytes"] for each in document["files"])
                acts = {each["erasure"]: each for each in document.get("erased", ())}
                act = {"erasure": self.wanted.erasure, "on": self.wanted.day}
                document["erased"] = list({**acts, self.wanted.erasure: act}.values())
            if mine or named:
                self.target.write_json(path, document)

    def left(self) -> int:
        """Return the number of manifests whose slice still has an erased text or the name."""
        documents = (self.target.read_json(path) or {} for path in self._manifests())
        return sum(map(self._clear_slice, documents))

    def _clear_slice(self, document: dict[str, Any]) -> bool:
        """Erase from a manifest's slice; return whether anything was to be erased."""
        part = document.get("slice") or {}
        return self._clear_text_in(part) | self._rename_in(part)

    def _clear_text_in(self, part: dict[str, Any]) -> bool:
        """Replace an erased text that the slice was narrowed by; return whether it had one."""
        narrowed = part.get("narrowed") or {}
        if narrowed.get("text") not in self.wanted.texts:
            return False
        narrowed["text"] = self.wanted.texts[narrowed["text"]]
        return True

    def _rename_in(self, part: dict[str, Any]) -> bool:
        """Replace the actor's name that the slice was narrowed by; return whether it had one."""
        name, alias = self.wanted.actor, self.wanted.alias
        if not name:
            return False
        before = orjson.dumps(part)
        if part.get("actors"):
            part["actors"] = [alias if each == name else each for each in part["actors"]]
        if text := (narrowed := part.get("narrowed") or {}).get("text"):
            narrowed["text"] = renamed(text, name, alias)
        return orjson.dumps(part) != before

    def _manifests(self) -> list[str]:
        """Return the paths of the slices' manifests and of the last manifest."""
        found = [each.path for each in self.target.files(f"{self.folder}/{MANIFESTS}")]
        last = f"{self.folder}/{MANIFEST}"
        return [*found, *([last] if self.target.size(last) is not None else [])]

    def _all(self) -> list[dict[str, Any]]:
        return list((self.target.read_json(f"{self.folder}/{ERASED}") or {}).get("erasures", ()))
