"""Find a table's exported changes, and what is known of them before they are read.

pyarrow reads the small files (schemas, manifests) here; the engine reads the rows, wherever it
runs.
"""

# All names in SQL are ours, and values of others are literals.
# ruff: noqa: S608

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from sys import intern
from typing import Any, Self

import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.slice_schemas import EVENTS, PARTITION, TRANSACTIONS, SliceColumn
from replview.parquet.slices import Slice, SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.datasets import document_oids
from replview.parquet.writing.manifests import manifests
from replview.parquet.writing.targets import Target
from replview.spark.history.engines import DataFrame, ParquetFiles, Session, made
from replview.spark.history.roots import DatasetRoot, merged
from replview.spark.history.spans import HistoryEnd, by_then
from replview.spark.sessions import SparkProblem
from replview.text.parsing import plain_name


@dataclass(frozen=True)
class ExportedIncarnation:
    """An incarnation of a slot below an export's root: tables, transactions, events, manifests."""

    root: Target
    #: ``<source>/<slot>-<number>`` as the folders are named.
    folder: str

    @classmethod
    def find(cls, root: str, incarnation: str | None = None) -> Self:
        """Return the incarnation ``source/slot-number``; None selects the only one.

        Raises ``SparkProblem``, ``TargetProblem``.
        """
        target = Target.of(root)
        if incarnation is not None:
            source, _, slot = incarnation.partition("/")
            name, _, number = slot.rpartition("-")
            chosen = cls(target, f"{layout.encoded(source)}/{layout.encoded(name)}-{number}")
            if not chosen.wholes and not target.folders(chosen.folder):
                raise SparkProblem(
                    f"nothing is exported of {incarnation} there", _which(cls.all(target))
                )
            return chosen
        found = cls.all(target)
        if not found and target.is_local and not target.has_folder():
            raise SparkProblem(f"there is no folder {target.url}", "check the root")
        if len(found) != 1:
            problem = "several incarnations of slots are" if found else "nothing is"
            raise SparkProblem(f"{problem} exported there", _which(found))
        return found[0]

    @classmethod
    def all(cls, target: Target) -> list[Self]:
        """Return all incarnations below a target."""
        return [
            cls(target, f"{source}/{slot}")
            for source in target.folders()
            for slot in target.folders(source)
        ]

    @property
    def name(self) -> str:
        """Return ``source/slot-number`` with the original names."""
        return layout.decoded(self.folder)

    @cached_property
    def wholes(self) -> list["WholeSlice"]:
        """Return the complete slices, in the order of history."""
        names = manifests(self.root, self.folder)
        read = (self.root.read_json(f"{self.folder}/{layout.MANIFESTS}/{n}.json") for n in names)
        # Read one by one, since all documents together may be large.
        found = [WholeSlice.of(document) for document in read if document]
        return sorted(found, key=lambda each: each.part.after_seq)

    @property
    def names(self) -> list[str]:
        """Return all names ``schema.table`` of exported tables, from the folders alone."""
        return [*map(layout.decoded, layout.roots_by_dataset(self.root.folders(self.folder)))]

    @cached_property
    def tables(self) -> list["Dataset"]:
        """Return the tables in the order of their last export.

        A renamed table is one table with all its files. A table that was dropped and created again
        under the same name is another one.
        """
        found: dict[object, _Held] = {}
        roots = self.root.folders(self.folder)
        for root, oid, name, files in self._held(
            [root for of in layout.roots_by_dataset(roots).values() for root in of]
        ):
            # Without an OID, identify the table by its name.
            held = found.setdefault(oid or name, _Held())
            # Move the table to the end, since it was exported last.
            found[oid or name] = found.pop(oid or name)
            held.names = [*(each for each in held.names if each != name), name]
            held.roots.setdefault((root, oid), []).extend(files)
        return [
            Dataset(self, tuple(held.names), tuple(
                DatasetRoot(self.root, f"{self.folder}/{root}", oid, tuple(files))
                for (root, oid), files in held.roots.items()
            ))
            for held in found.values()
        ]  # fmt: skip

    def _held(self, roots: Sequence[str]) -> Iterator[tuple[str, int, str, Sequence[str]]]:
        """Yield the folders of tables: ``(root's folder, oid, name, files)``.

        They are in the order of history; folders without a manifest come first.
        """
        told = [(whole, *table) for whole in self.wholes for table in whole.tables]
        known = {dataset.rpartition("/")[2] for _, dataset, _, _ in told}
        for root in (each for each in roots if each not in known):
            document = self.root.read_json(f"{self.folder}/{root}/{layout.SCHEMA}") or {"table": {}}
            for oid in document_oids(document) if document["table"] else ():
                yield root, oid, f"{document['table']['schema']}.{document['table']['name']}", ()
        for whole, dataset, oid, name in told:
            yield dataset.rpartition("/")[2], oid, name, whole.files.get(dataset, ())

    def table(self, name: str) -> "Dataset":
        """Return a table by a present or former name; without schema it is in ``public``.

        Of several tables with that name the one exported last counts; ``schema.table-oid`` selects
        another. Raises ``SparkProblem``.
        """
        whole = with_schema(name)
        named = [each for each in self.tables if whole == each.names[-1]]
        named = named or [each for each in self.tables if whole in each.names]
        named = named or [
            each for each in self.tables for one in each.names if whole == f"{one}-{each.oid}"
        ]
        if named:
            return named[-1]
        names = ", ".join(sorted({each.names[-1] for each in self.tables})) or "none"
        raise SparkProblem(f"no table {name} is exported of {self.name}", f"there are: {names}")

    def transactions(self, session: Session) -> DataFrame:
        """Return one row per transaction, as in ``slice_schemas.TRANSACTIONS``."""
        return self._frame(session, layout.TRANSACTIONS, TRANSACTIONS)

    def events(self, session: Session) -> DataFrame:
        """Return truncations and logical messages, as in ``slice_schemas.EVENTS``.

        The columns ``schema`` and ``table`` are ``schema_name`` and ``table_name``, because SQL has
        other uses for their names.
        """
        events = self._frame(session, layout.EVENTS, EVENTS)
        others = {"schema": "schema_name", "table": "table_name"}
        return events.toDF(*(others.get(name, name) for name in events.columns))

    @property
    def transaction_files(self) -> list[ParquetFiles]:
        """Return the files of transactions; empty if there are none."""
        return self._files(layout.TRANSACTIONS, TRANSACTIONS)

    def _files(self, name: str, schema: pa.Schema) -> list[ParquetFiles]:
        folder = f"{self.folder}/{name}"
        if not self.root.folders(folder):
            return []
        # List files explicitly: during compaction rows exist twice.
        paths = [path for whole in self.wholes for path in whole.files.get(folder, ())]
        return [ParquetFiles(self.root, folder, schema, tuple(paths))]

    def _frame(self, session: Session, name: str, schema: pa.Schema) -> DataFrame:
        for files in self._files(name, schema):
            return files.frame(session)
        return made(session, [], schema.append(pa.field(PARTITION, pa.date32())))


@dataclass(frozen=True)
class WholeSlice:
    """The part of a manifest that is kept in memory."""

    part: Slice
    #: Dataset, OID and name of each table with changes.
    tables: tuple[tuple[str, int, str], ...]
    #: Files by dataset, both relative to the root.
    files: Mapping[str, Sequence[str]]
    #: Transactions that the store had deleted: ``after < commit_seq <= through``.
    deleted: tuple[tuple[int, int], ...]
    #: Times in which changes of a table may not have been published.
    lapses: tuple["ExportedLapse", ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read a manifest."""
        files: dict[str, list[str]] = {}
        for file in document.get("files", ()):
            files.setdefault(intern(file["dataset"]), []).append(file["path"])
        tables = (
            (intern(each["dataset"]), each["oid"], intern(f"{each['schema']}.{each['table']}"))
            for each in document.get("tables", ())
        )
        gaps = (gap for gap in document.get("gaps", ()) if gap["kind"] == "deleted")
        deleted = ((gap["after_seq"], gap["through_seq"]) for gap in gaps)
        lapses = (
            ExportedLapse(
                gap["oid"],
                _lsn(gap["from_lsn"]),
                _lsn(gap["to_lsn"]),
                gap["operations"],
                gap["why"],
            )
            for gap in document.get("gaps", ())
            if gap["kind"] == "unpublished"
        )
        part = Slice.from_json(document["slice"])
        return cls(part, tuple(tables), files, tuple(deleted), tuple(lapses))


@dataclass(frozen=True)
class ExportedLapse:
    """A time in which changes of a table may not have been published."""

    oid: int
    #: LSNs between which changes may be missing; None for an open end.
    from_lsn: int | None
    to_lsn: int | None
    #: The operations that may be missing, of I, U, D and T.
    operations: str
    why: str


def _lsn(text: str | None) -> int | None:
    return None if text is None else int(LSN.parse(text))


@dataclass
class _Held:
    """The names and files of a table."""

    #: Names of the table, last one last.
    names: list[str] = field(default_factory=list)
    #: Files by root and OID.
    roots: dict[tuple[str, int], list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """Everything that is exported of one table."""

    incarnation: ExportedIncarnation
    #: Names ``schema.table``, last one last.
    names: tuple[str, ...]
    #: Roots in the order of history.
    roots: tuple[DatasetRoot, ...]

    @classmethod
    def find(cls, root: str, table: str, incarnation: str | None = None) -> "Dataset":
        """Return the dataset of a table below an export's root. Raises ``SparkProblem``."""
        return ExportedIncarnation.find(root, incarnation).table(table)

    @cached_property
    def relation(self) -> SliceTable:
        """Return the table with all its versions. Raises ``SparkProblem``."""
        return merged([root.relation for root in self.roots], self.name)

    @property
    def name(self) -> str:
        """Return the last name."""
        return self.names[-1]

    @property
    def oid(self) -> int:
        """Return the table's OID; 0 when unknown."""
        return self.roots[-1].oid

    @property
    def described(self) -> dict[str, object]:
        """Return details that identify the table, as ``ExportedIncarnation.table`` accepts them."""
        others = [
            f"{name}-{each.oid}"
            for each in self.incarnation.tables
            for name in each.names
            if each.oid != self.oid and name in self.names
        ]
        more = {"formerly_called": list(self.names[:-1]), "other_tables_of_the_name": others}
        return {"table": self.name, **{name: each for name, each in more.items() if each}}

    def is_among(self, names: Sequence[str]) -> bool:
        """Return whether a slice of these tables has it; a shared name may mean several."""
        others = {name for each in self.incarnation.tables if each.oid != self.oid
                  for name in each.names}  # fmt: skip
        plain = {plain_name(name) for name in names}
        return self.name in plain or not {*self.names}.difference(others).isdisjoint(plain)

    @property
    def columns(self) -> list[SliceColumn]:
        """Return the table's own columns in the files, over all versions."""
        return self.relation.columns

    def version(self, number: int | None) -> TableVersion:
        """Return a version by number; the newest if the number is unknown."""
        versions = self.relation.versions
        return next((each for each in versions if each.number == number), versions[-1])

    def columns_of(self, version: TableVersion) -> list[SliceColumn]:
        """Return the columns of a version in its order, as they are in the files."""
        known = {column.source_name: column for column in self.columns}
        names = [str(column["name"]) for column in version.columns]
        return [known[name] for name in names if name in known]

    def lacking(self, column: SliceColumn) -> list[int]:
        """Return the numbers of the versions without this column."""
        return [
            version.number
            for version in self.relation.versions
            if column.source_name not in {each["name"] for each in version.columns}
        ]

    @cached_property
    def keys(self) -> dict[tuple[str, ...], list[int]]:
        """Return version numbers by key, named as on the source; an empty key is no key."""
        found: dict[tuple[str, ...], list[int]] = {}
        for version in self.relation.versions:
            found.setdefault(version.key_columns, []).append(version.number)
        return found

    @property
    def tells_rows_apart(self) -> bool:
        """Return whether a version has a key."""
        return any(self.keys)

    def require_key(self) -> None:
        """Raise ``SparkProblem`` if the table never had a key."""
        if not self.tells_rows_apart:
            raise SparkProblem(
                f"rows of {self.name} cannot be told apart: it has no key that is sent",
                "give it a primary key, or a replica identity, and export what comes then",
            )

    @property
    def key_columns(self) -> list[SliceColumn]:
        """Return the columns of all keys."""
        known = {column.source_name: column for column in self.columns}
        return [known[name] for name in dict.fromkeys(name for key in self.keys for name in key)]

    @cached_property
    def rows(self) -> int:
        """Return the number of rows in the files."""
        return sum(root.parquet.rows(None) for root in self.roots)

    @cached_property
    def size_bytes(self) -> int:
        """Return the size of the rows in the files before compression."""
        return sum(root.parquet.size_bytes() for root in self.roots)

    def changes(self, session: Session, until: HistoryEnd) -> DataFrame:
        """Return the rows committed by then; files of later days are not opened.

        Columns: ``value<n>``, the n-th of ``columns``, then ``CHANGE_FIELDS`` and the day.
        """
        condition = by_then(until, time="_commit_timestamp")
        roots = {
            f"root{n}": root.changes(session, condition, self.columns)
            for n, root in enumerate(self.roots)
        }
        text = " UNION ALL ".join(f"SELECT * FROM {{{name}}}" for name in roots)
        return session.sql(text, **roots)


def with_schema(name: str) -> str:
    """Return a table's name with its schema, ``public`` where none is given."""
    return name if "." in name else f"public.{name}"


def _which(found: Sequence[ExportedIncarnation]) -> str:
    names = ", ".join(sorted(incarnation.name for incarnation in found))
    return f"choose one of: {names}" if found else "export a slice there first"
