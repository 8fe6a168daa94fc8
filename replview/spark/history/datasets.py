"""Where a table's exported changes stand, and what is known of them before any is read.

The small files (schemas, manifests) are read here by pyarrow, the rows by Spark, wherever it runs.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from replview.parquet.pg_values import pg_text
from replview.parquet.slice_schemas import CHANGE_FIELDS, EVENTS, PARTITION, TRANSACTIONS, Column
from replview.parquet.slices import Slice, SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.targets import Target
from replview.spark.quoting import spark_address, tick
from replview.spark.sessions import SparkProblem

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

# A table whose column became another kind of type stands in several folders (``writing.layout``),
# each with a schema of its own. Together a column has the type that holds all its values: as within
# one slice that is text, the server's, where nothing else does.


@dataclass(frozen=True)
class DatasetRoot:
    target: Target
    #: Seen from the target's.
    folder: str

    @cached_property
    def relation(self) -> SliceTable:
        """The table, with all shapes that the changes here were made under."""
        path = f"{self.folder}/{layout.SCHEMA}"
        document = self.target.read_json(path)
        if document is None:
            raise SparkProblem(
                f"{path} is missing", "export the slice again: its files say nothing without it"
            )
        table, versions = document["table"], map(TableVersion.from_json, document["versions"])
        return SliceTable(relation_id=0, oid=table["oid"], schema=table["schema"],
                          table=table["name"], versions=tuple(versions))  # fmt: skip

    def frame(self, spark: "SparkSession", url: str) -> "DataFrame":
        """Its rows; ``url`` is its address as Spark spells it."""
        from pyspark.sql.pandas.types import from_arrow_schema

        wanted = from_arrow_schema(self.relation.arrow_schema())
        return spark.read.schema(wanted.add(PARTITION, "date")).parquet(url)


def merged(tables: Sequence[SliceTable]) -> SliceTable:
    """A table by what its roots tell, in their order: as the last names it, with every shape."""
    shapes: list[TableVersion] = []
    made_anew = False
    for before, table in zip((None, *tables), tables, strict=False):
        if before is not None and before.oid != table.oid:
            made_anew = True
        known = {shape.number: shape for shape in shapes}
        shapes += [one for one in table.versions if known.get(one.number) != one]
    if not made_anew:
        shapes.sort(key=lambda shape: shape.number)
    return replace(tables[-1], versions=tuple(shapes))


def as_one(frame: "DataFrame", own: Sequence[Column], wanted: Sequence[Column]) -> "DataFrame":
    """The rows of a root with the columns, and their types, of the whole table."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_type

    there = {column.source_name: column for column in own}
    found: list[Expression] = []
    texts: list[str] = []
    for column in wanted:
        mine = there.get(column.source_name)
        if mine is None:
            value = F.lit(None).cast(from_arrow_type(column.arrow))
        elif mine.arrow == column.arrow:
            value = F.col(tick(mine.name))
        elif pa.types.is_string(column.arrow):
            texts.append(column.source_name)
            # What its column could not hold; a mark (masked, erased) is no value.
            beside = F.try_element_at("_pg_raw", F.lit(column.source_name))
            held = _text_of(mine.arrow)(F.col(tick(mine.name)))
            value = F.coalesce(held, F.when(~beside.startswith('{"$'), beside))
        else:
            value = F.col(tick(mine.name)).cast(from_arrow_type(column.arrow))
        found.append(value.alias(column.name))
    raw = F.map_filter("_pg_raw", lambda name, text: ~name.isin(texts) | text.startswith('{"$'))
    fields = [F.col(field.name) for field in CHANGE_FIELDS if field.name != "_pg_raw"]
    beside = raw.alias("_pg_raw") if texts else F.col("_pg_raw")
    return frame.select(*found, *fields, beside, PARTITION)


def _text_of(kind: pa.DataType) -> Callable[[Any], "Expression"]:
    """Values in the server's text."""
    from pyspark.sql.pandas.functions import arrow_udf

    # What kind of function it is, Spark works out from these types.
    def texts(values: pa.Array) -> pa.Array:
        found = [pg_text(value, kind) for value in values.to_pylist()]
        return pa.array(found, pa.string())

    make: Any = arrow_udf
    made: Callable[[Any], Expression] = make(texts, "string")
    return made


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

    def tables(self) -> list["Dataset"]:
        """Its tables, by the names of their folders; each with all its roots."""
        found = layout.roots_by_dataset(self.root.folders(self.folder))
        return [Dataset(self, name, tuple(roots)) for name, roots in sorted(found.items())]

    def table(self, name: str) -> "Dataset":
        """A table by its name, ``schema.table``, or its folder's; one without a schema is
        ``public``'s. Raises ``SparkProblem``.
        """
        found = self.tables()
        whole = name if "." in name else f"public.{name}"
        for chosen in found:
            if name == chosen.folder or whole == layout.decoded(chosen.folder):
                return chosen
        names = ", ".join(sorted(layout.decoded(each.folder) for each in found)) or "none"
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


@dataclass(frozen=True)
class Dataset:
    incarnation: Incarnation
    #: Its first root's, seen from the incarnation's.
    folder: str
    #: Of all its roots, in their order; empty: it has that one.
    folders: tuple[str, ...] = ()

    @classmethod
    def find(cls, root: str, table: str, incarnation: str | None = None) -> "Dataset":
        """The dataset of a table below an export's root. Raises ``SparkProblem``."""
        return Incarnation.find(root, incarnation).table(table)

    @cached_property
    def roots(self) -> list[DatasetRoot]:
        target, incarnation = self.incarnation.root, self.incarnation.folder
        return [
            DatasetRoot(target, f"{incarnation}/{each}") for each in self.folders or (self.folder,)
        ]

    @cached_property
    def relation(self) -> SliceTable:
        """The table, with all shapes that its changes were made under. Raises ``SparkProblem``."""
        return merged([root.relation for root in self.roots])

    @property
    def name(self) -> str:
        """``schema.table``, as last seen."""
        return self.relation.name

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

    @property
    def _keys(self) -> set[tuple[str, ...]]:
        return {version.key_columns for version in self.relation.versions}

    @property
    def tells_rows_apart(self) -> bool:
        """Whether all its shapes know rows by the same key."""
        return len(self._keys) == 1 and self._keys != {()}

    def keys(self) -> list[Column]:
        """What rows are known by, in all shapes. Raises ``SparkProblem`` where that is nothing."""
        chosen = self._keys
        if chosen in ({()}, set()):
            raise SparkProblem(
                f"rows of {self.name} cannot be told apart: it has no key that is sent",
                "give it a primary key, or a replica identity, and export what comes then",
            )
        if len(chosen) > 1:
            shown = " and ".join(", ".join(each) or "none" for each in sorted(chosen))
            raise SparkProblem(
                f"the key of {self.name} changed within what is exported: {shown}",
                "export the time before and after that change to roots of their own",
            )
        known = {column.source_name: column for column in self.columns}
        return [known[name] for names in chosen for name in names]

    def changes(self, spark: "SparkSession", until: Moment) -> "DataFrame":
        """Its rows as exported, those committed by then; files of later days are not opened."""
        target = self.incarnation.root
        frames = [root.frame(spark, f"{spark_url(target)}/{root.folder}") for root in self.roots]
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
