"""Where a table's exported changes stand, and what is known of them before any is read.

The small files (schemas, manifests) are read here by pyarrow, the rows by Spark, wherever it runs.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from replview.parquet.slice_schemas import EVENTS, PARTITION, TRANSACTIONS, Column
from replview.parquet.slices import Slice, SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.datasets import document_oids
from replview.parquet.writing.targets import Target
from replview.spark.history.roots import DatasetRoot, as_one, merged
from replview.spark.quoting import spark_address, tick
from replview.spark.sessions import SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Moment:
    """Until when changes count: a commit LSN (included), a commit time (included), or the end."""

    lsn: int | None = None
    time: dt.datetime | None = None

    def __post_init__(self) -> None:
        if self.time is not None and self.time.tzinfo is None:
            raise ValueError("a time without its zone")


#: The end of what is exported.
END = Moment()


def committed_by(frame: "DataFrame", moment: Moment, *, time: str) -> "DataFrame":
    """Those of transactions or events that had committed by then."""
    from pyspark.sql import functions as F

    if moment.lsn is not None:
        frame = frame.where(F.col("_commit_version") <= moment.lsn)
    if moment.time is not None:
        day = moment.time.astimezone(dt.UTC).date()
        frame = frame.where(F.col(PARTITION) <= F.lit(day))
        frame = frame.where(F.col(tick(time)) <= F.lit(moment.time))
    return frame


@dataclass(frozen=True)
class Incarnation:
    """One incarnation of a slot below an export's root: tables, transactions, events, manifests."""

    root: Target
    #: ``<source>/<slot>-<number>`` as the folders are named.
    folder: str

    @classmethod
    def find(cls, root: str, incarnation: str | None = None) -> Self:
        """The incarnation ``source/slot-number`` (names as they are); None: the only one there is.

        Raises ``SparkProblem``, ``TargetProblem``.
        """
        target = Target.of(root)
        if incarnation is not None:
            source, _, slot = incarnation.partition("/")
            name, _, number = slot.rpartition("-")
            chosen = cls(target, f"{layout.encoded(source)}/{layout.encoded(name)}-{number}")
            if not chosen.manifests and not target.folders(chosen.folder):
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
        return [
            cls(target, f"{source}/{slot}")
            for source in target.folders()
            for slot in target.folders(source)
        ]

    @property
    def name(self) -> str:
        """``source/slot-number``, names as they are."""
        return layout.decoded(self.folder)

    @cached_property
    def manifests(self) -> list[Mapping[str, Any]]:
        """What is whole of it: a manifest a slice."""
        found = self.root.files(f"{self.folder}/{layout.MANIFESTS}")
        whole = [f.path for f in found if not f.path.endswith(layout.UNFINISHED)]
        return [self.root.read_json(path) or {} for path in whole]

    @property
    def slices(self) -> list[Slice]:
        return [Slice.from_json(details["slice"]) for details in self.manifests]

    @property
    def names(self) -> list[str]:
        """Every name, ``schema.table``, under which tables stand there, by the folders alone."""
        return [*map(layout.decoded, layout.roots_by_dataset(self.root.folders(self.folder)))]

    @cached_property
    def tables(self) -> list["Dataset"]:
        """Its tables, in the order in which they were last exported: each with all that stands
        there of it, whatever it was called. One made anew under a name is another.
        """
        found: dict[object, _Held] = {}
        roots = self.root.folders(self.folder)
        for root, oid, name, files in self._held(
            [root for of in layout.roots_by_dataset(roots).values() for root in of]
        ):
            # Where the source told no oid, a table is what its name is.
            held = found.setdefault(oid or name, _Held())
            # What comes last stands last.
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

    def _held(self, roots: Sequence[str]) -> Iterator[tuple[str, int, str, list[str]]]:
        """What changes of tables stand where: ``(root's folder, oid, name, files)``, in the order
        of history; first what no manifest tells of.
        """
        wholes = sorted(self.manifests, key=lambda each: int(each["slice"]["after_seq"]))
        told = [(each, whole) for whole in wholes for each in whole.get("tables", ())]
        known = {each["dataset"].rpartition("/")[2] for each, _ in told}
        for root in (each for each in roots if each not in known):
            document = self.root.read_json(f"{self.folder}/{root}/{layout.SCHEMA}") or {"table": {}}
            for oid in document_oids(document) if document["table"] else ():
                yield root, oid, f"{document['table']['schema']}.{document['table']['name']}", []
        for each, whole in told:
            files = [file["path"] for file in whole["files"] if file["dataset"] == each["dataset"]]
            name = f"{each['schema']}.{each['table']}"
            yield each["dataset"].rpartition("/")[2], each["oid"], name, files

    def table(self, name: str) -> "Dataset":
        """A table by a name that it has, or had, ``schema.table``; one without a schema is
        ``public``'s. Of several of that name the one exported last; ``schema.table-oid`` is any of
        them. Raises ``SparkProblem``.
        """
        whole = name if "." in name else f"public.{name}"
        named = [each for each in self.tables if whole == each.names[-1]]
        named = named or [each for each in self.tables if whole in each.names]
        named = named or [
            each for each in self.tables for one in each.names if whole == f"{one}-{each.oid}"
        ]
        if named:
            return named[-1]
        names = ", ".join(sorted({each.names[-1] for each in self.tables})) or "none"
        raise SparkProblem(f"no table {name} is exported of {self.name}", f"there are: {names}")

    def transactions(self, spark: "SparkSession") -> "DataFrame":
        """One row a transaction, as ``slice_schemas.TRANSACTIONS``."""
        return self._frame(spark, layout.TRANSACTIONS, TRANSACTIONS)

    def events(self, spark: "SparkSession") -> "DataFrame":
        """Truncations and logical messages, as ``slice_schemas.EVENTS``."""
        return self._frame(spark, layout.EVENTS, EVENTS)

    def _frame(self, spark: "SparkSession", name: str, schema: pa.Schema) -> "DataFrame":
        from pyspark.sql.pandas.types import from_arrow_schema

        wanted = from_arrow_schema(schema).add(PARTITION, "date")
        if not self.root.folders(f"{self.folder}/{name}"):
            return spark.createDataFrame([], wanted)
        return spark.read.schema(wanted).parquet(f"{spark_url(self.root)}/{self.folder}/{name}")


@dataclass
class _Held:
    #: As it was called, the last one last.
    names: list[str] = field(default_factory=list)
    #: Root and oid → the files.
    roots: dict[tuple[str, int], list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """All that is exported of one table."""

    incarnation: Incarnation
    #: ``schema.table``, as it was called, the last one last.
    names: tuple[str, ...]
    #: In their order.
    roots: tuple[DatasetRoot, ...]

    @classmethod
    def find(cls, root: str, table: str, incarnation: str | None = None) -> "Dataset":
        """The dataset of a table below an export's root. Raises ``SparkProblem``."""
        return Incarnation.find(root, incarnation).table(table)

    @cached_property
    def relation(self) -> SliceTable:
        """The table, with all shapes that its changes were made under. Raises ``SparkProblem``."""
        return merged([root.relation for root in self.roots], self.name)

    @property
    def name(self) -> str:
        """As last seen."""
        return self.names[-1]

    @property
    def oid(self) -> int:
        return self.roots[-1].oid

    @property
    def described(self) -> dict[str, object]:
        """What is worth saying of which table it is; others are named as ``Incarnation.table``
        takes them.
        """
        others = [
            f"{name}-{each.oid}"
            for each in self.incarnation.tables
            for name in each.names
            if each.oid != self.oid and name in self.names
        ]
        more = {"formerly_called": list(self.names[:-1]), "other_tables_of_the_name": others}
        return {"table": self.name, **{name: each for name, each in more.items() if each}}

    def is_among(self, names: Sequence[str]) -> bool:
        """Whether a slice of these tables has it: a name that others had, too, may mean these."""
        others = {name for each in self.incarnation.tables if each.oid != self.oid
                  for name in each.names}  # fmt: skip
        return self.name in names or not {*self.names}.difference(others).isdisjoint(names)

    @property
    def columns(self) -> list[Column]:
        """The table's own columns in the files: of all its shapes."""
        return self.relation.columns

    def version(self, number: int | None) -> TableVersion:
        """A shape by its number; the newest where that is not known."""
        versions = self.relation.versions
        return next((each for each in versions if each.number == number), versions[-1])

    def columns_of(self, version: TableVersion) -> list[Column]:
        """The columns that a shape has, in its order, as they are in the files."""
        known = {column.source_name: column for column in self.columns}
        names = [str(column["name"]) for column in version.columns]
        return [known[name] for name in names if name in known]

    def lacking(self, column: Column) -> list[int]:
        """The numbers of the shapes that have no such column."""
        return [
            version.number
            for version in self.relation.versions
            if column.source_name not in {each["name"] for each in version.columns}
        ]

    @cached_property
    def keys(self) -> dict[tuple[str, ...], list[int]]:
        """What rows were known by, as on the source → the numbers of the shapes in which they were;
        an empty key: rows of these cannot be told apart.
        """
        found: dict[tuple[str, ...], list[int]] = {}
        for version in self.relation.versions:
            found.setdefault(version.key_columns, []).append(version.number)
        return found

    @property
    def tells_rows_apart(self) -> bool:
        """Whether some of its shapes have a key."""
        return any(self.keys)

    @property
    def key_columns(self) -> list[Column]:
        """What rows are known by in some shape. Raises ``SparkProblem`` where that is nothing."""
        if not self.tells_rows_apart:
            raise SparkProblem(
                f"rows of {self.name} cannot be told apart: it has no key that is sent",
                "give it a primary key, or a replica identity, and export what comes then",
            )
        known = {column.source_name: column for column in self.columns}
        return [known[name] for name in dict.fromkeys(name for key in self.keys for name in key)]

    def changes(self, spark: "SparkSession", until: Moment) -> "DataFrame":
        """Its rows as exported, those committed by then; files of later days are not opened."""
        url = spark_url(self.incarnation.root)
        frames = [root.frame(spark, url) for root in self.roots]
        frames = [committed_by(frame, until, time="_commit_timestamp") for frame in frames]
        if len(frames) > 1:
            of_all, of_each = self.columns, [root.relation.columns for root in self.roots]
            frames = [as_one(f, own, of_all) for f, own in zip(frames, of_each, strict=True)]
        return reduce(lambda before, more: before.unionByName(more), frames)


def spark_url(target: Target) -> str:
    """A target's address as Spark spells it."""
    return spark_address(target.url)


def _which(found: Sequence[Incarnation]) -> str:
    names = ", ".join(sorted(incarnation.name for incarnation in found))
    return f"choose one of: {names}" if found else "export a slice there first"
