"""Find what is to be erased below a root of slices, and erase it file by file.

Each file is written beside itself and renamed, so that readers find the old or the new one. Before
the first file of an incarnation is changed, ``_erased.json`` in its folder lists all files that
will be; at the end manifests get the present sizes and checksums. A crash between leaves files
whose footers say that they are done, and manifests that the next attempt corrects.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import orjson
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from replview.parquet.archive.changes import ArchivedChange, ArchivedShapes
from replview.parquet.archive.compacting import settle
from replview.parquet.erasure.finding import (
    FileErasure,
    FilePlace,
    TableFile,
    Within,
)
from replview.parquet.erasure.rewriting import NAMES_BESIDE, NAMES_IN_TABLES, Notes, Rewriter
from replview.parquet.writing.datasets import document_oids
from replview.parquet.writing.files import footer_value
from replview.parquet.writing.filesystems import WRITING
from replview.parquet.writing.layout import EVENTS, SCHEMA, TRANSACTIONS, encoded
from replview.parquet.writing.problems import raising_problems
from replview.parquet.writing.targets import Target
from replview.store.read.mask_rules import table_readings
from replview.store.read.row_history.trails import Key, KeySpan
from replview.text.parsing import name_parts, whole_number


@dataclass(slots=True)
class RootCounts:
    """The files and rows of a root that are to be erased, or were."""

    #: Paths of files, relative to the root.
    files: list[str] = field(default_factory=list)
    #: Changes of tables in the files, and transactions or events that name the actor.
    rows: int = 0
    incarnations: list[str] = field(default_factory=list)
    #: Changes whose row cannot be identified.
    unfindable: int = 0


@dataclass(frozen=True, slots=True)
class _TableToErase:
    """A dataset of a table with rows that are erased."""

    shapes: ArchivedShapes
    spans: Sequence[KeySpan]
    files: Sequence[TableFile]
    #: See ``FileErasure.places``; None: no row of the table.
    places: Collection[FilePlace] | None

    @property
    def key_names(self) -> set[str]:
        """Return the columns of the spans' keys."""
        return {name for span in self.spans for name, _ in span.key}

    def changes_in(self, file: TableFile) -> set[Within]:
        """Return the file's changes that are erased."""
        return file.changes_within(self.spans) | file.changes_at(self.places or ())


@dataclass(frozen=True, slots=True)
class ErasureRoot:
    """A folder or URL that slices were written to."""

    target: Target
    wanted: FileErasure

    @classmethod
    def of(cls, url: str, wanted: FileErasure) -> "ErasureRoot":
        """Open a root. Every function of a root may raise ``TargetProblem``."""
        return cls(Target.of(url), wanted)

    def changes_under(
        self, oids: Sequence[int], keys: Sequence[Key]
    ) -> Iterator[tuple[int, ArchivedChange]]:
        """Yield every change with a row under one of a table's keys: ``(incarnation, change)``."""
        for incarnation, folder in self._incarnations():
            for table in self._tables(folder, incarnation):
                if not {*document_oids(table.shapes.document)}.isdisjoint(oids):
                    for file in table.files:
                        for change in file.changes_under(keys, table.shapes):
                            yield incarnation, change

    def look(self) -> RootCounts:
        """Return what would be erased."""
        found = RootCounts()
        for incarnation, folder in self._incarnations():
            if holding := self._holding(folder, incarnation):
                found.files += holding
                found.rows += sum(rows for _, _, rows in holding.values())
                found.incarnations.append(folder)
            found.unfindable += self._unfindable(folder, incarnation)
        return found

    def left(self) -> int:
        """Count again how many rows and manifests hold something that is to be erased."""
        rewriter, found = Rewriter(self.target, self.wanted), 0
        for incarnation, folder in self._incarnations():
            for table in self._tables(folder, incarnation):
                for file in table.files:
                    found += rewriter.left(file.path, table.shapes, table.changes_in(file))
                    found += rewriter.count_naming(file.path, NAMES_IN_TABLES)
            found += sum(rows for _, rows in self._naming(folder))
            found += Notes(self.target, folder, self.wanted).left()
        return found

    def _unfindable(self, folder: str, incarnation: int) -> int:
        return sum(
            file.unfindable(self.wanted, table.key_names, table.changes_in(file))
            for table in self._tables(folder, incarnation) if table.places is not None
            for file in table.files
        )  # fmt: skip

    def erase(self, on_files: Callable[[int], None] = lambda files: None) -> RootCounts:
        """Rewrite the files with anything to erase; ``on_files`` is called for each file."""
        done = RootCounts()
        rewriter = Rewriter(self.target, self.wanted)
        for incarnation, folder in self._incarnations():
            self._sweep(folder)
            notes = Notes(self.target, folder, self.wanted)
            planned = notes.rewritten()
            holding = self._holding(folder, incarnation)
            files = sorted({*planned, *holding})
            done.unfindable += self._unfindable(folder, incarnation)
            if not files:
                notes.put_manifests_right(files)
                continue
            rows = 0
            notes.write(files, rows, finished=False)
            for path, (of, changes, _) in holding.items():
                if of is not None:
                    named = rewriter.table(path, of.shapes, changes)
                    rows += max(len(changes), named)
                else:
                    rows += rewriter.naming(path)
                on_files(1)
            notes.put_manifests_right(files)
            notes.write(files, rows, finished=True)
            done.incarnations.append(folder)
            done.files += files
            done.rows += rows
        return done

    def _holding(
        self, folder: str, incarnation: int
    ) -> dict[str, tuple[_TableToErase | None, set[Within], int]]:
        """Return the files with anything to erase: path → table, changes and number of rows.

        The table is None for transactions and events.
        """
        found: dict[str, tuple[_TableToErase | None, set[Within], int]] = {}
        rewriter = Rewriter(self.target, self.wanted)
        for table in self._tables(folder, incarnation):
            for file in table.files:
                changes = table.changes_in(file)
                named = rewriter.count_naming(file.path, NAMES_IN_TABLES)
                if rows := max(len(changes), named):
                    found[file.path] = (table, changes, rows)
        return found | {path: (None, set(), rows) for path, rows in self._naming(folder)}

    def _incarnations(self) -> list[tuple[int, str]]:
        """Return ``(number, folder)`` of the slot's incarnations in the root."""
        found = []
        for source, slot in (map(encoded, home) for home in self.wanted.homes):
            for name in self.target.folders(source):
                stem, _, text = name.rpartition("-")
                if stem == slot and (number := whole_number(text)) is not None:
                    found.append((number, f"{source}/{name}"))
        return sorted(found)

    def _tables(self, folder: str, incarnation: int) -> Iterator[_TableToErase]:
        """Yield datasets with rows that are erased; all datasets where an actor is."""
        for name in self.target.folders(folder):
            if "." not in name:
                continue
            document = self.target.read_json(f"{folder}/{name}/{SCHEMA}")
            if document is None:
                # The slice was never whole: its files have their shape in their footers.
                document = self._schema_of_unfinished(f"{folder}/{name}")
            if document is None:
                continue
            wanted = [oid for oid in document_oids(document) if oid in self.wanted.tables]
            spans = [span for oid in wanted for span in self.wanted.tables[oid]]
            if wanted or self.wanted.actor:
                paths = self._files(f"{folder}/{name}")
                files = [TableFile(self.target, path, incarnation) for path in paths]
                known = [self.wanted.places[oid] for oid in wanted if oid in self.wanted.places]
                places = list(chain(*known)) if known else None
                yield _TableToErase(ArchivedShapes(document), spans, files, places)

    def _schema_of_unfinished(self, dataset: str) -> dict[str, Any] | None:
        """Return a schema for a dataset without one: the columns of a file's footer, one shape."""
        path = next(iter(self._files(dataset)), None)
        if path is None:
            return None
        with raising_problems(), self.target.open(path) as file:
            told = footer_value(pq.ParquetFile(file).schema_arrow, b"replview")
        known = orjson.loads(told or b"{}")
        named = str(known.get("table", "."))
        wanted = {tuple(name_parts(each)): oid
                  for oid, names in self.wanted.names.items() for each in names}  # fmt: skip
        # Names are written as in SQL; formerly unquoted, so that any dot may separate the two.
        readings = table_readings(named)[::-1] or [("", named)]
        schema, name = next((each for each in readings if each in wanted), readings[0])
        columns = [{"name": c["name"], "type": c["pg_type"]} for c in known.get("columns", ())]
        version = {"columns": columns, "key_columns": [], "replica_identity": "DEFAULT"}
        table = {"schema": schema, "name": name, "oid": wanted.get((schema, name), 0)}
        return {"table": table, "versions": [{"number": None, **version}]}

    def _naming(self, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the files of transactions and events that have the actor's name."""
        if not self.wanted.actor:
            return
        rewriter = Rewriter(self.target, self.wanted)
        for kind in (TRANSACTIONS, EVENTS):
            for path in self._files(f"{folder}/{kind}"):
                if rows := rewriter.count_naming(path, NAMES_BESIDE):
                    yield path, rows

    def _sweep(self, folder: str) -> None:
        """Delete half-written files and files of compactions, which hold values, too.

        No other process writes to the folder now.
        """
        settle(self.target, folder, discard=True)
        for name in self.target.folders(folder, hidden=True):
            if name.startswith(WRITING):
                self.target.delete_folder(f"{folder}/{name}")
        for found in self.target.files(folder, deep=True):
            if found.path.rpartition("/")[2].startswith(WRITING):
                self.target.delete(found.path)

    def _files(self, folder: str) -> list[str]:
        found = [each.path for each in self.target.files(folder, deep=True)]
        names = ((path, path.rpartition("/")[2]) for path in found)
        return [p for p, name in names if name.endswith(".parquet") and not name.startswith("_")]


def is_there(url: str) -> bool:
    """Return whether the root can be listed: a folder that is gone is no erased one.

    Raises ``TargetProblem``.
    """
    address = Target.of(url).address
    with raising_problems():
        return bool(address.filesystem.get_file_info(address.path).type == pa_fs.FileType.Directory)
