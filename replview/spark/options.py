"""Parse the data source's options (lower case, as Spark passes them), and plan partitions."""

import datetime as dt
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import IsolationLevel
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from decoder.scalars import LSN
from replview.parquet.archive import deleted
from replview.parquet.reading import SliceRequest, connect, cut, read_typed, read_untyped
from replview.parquet.reading.connecting import (
    StoreConnection,
    StoreProblem,
    did_you_mean,
    store_dsn,
)
from replview.parquet.reading.masks import asked_masks, with_rules
from replview.parquet.reading.places import ends, everything, operation_codes
from replview.parquet.reading.slice_tables import chosen, known_tables
from replview.parquet.slices import (
    BEFORE,
    NARROWING_FIELDS,
    OPERATIONS,
    STATES,
    BeforeOrigin,
    Masked,
    Slice,
    SliceRange,
    SliceTable,
)
from replview.parquet.writing import manifests
from replview.parquet.writing.exporting import lost_store
from replview.parquet.writing.targets import Target
from replview.spark.planned_files import PlannedFiles, in_schema
from replview.spark.pyspark_versions import arrow_schema
from replview.store.read.transactions.fields import Field
from replview.store.read.transactions.filter_values import UNKNOWN_ACTOR, read_operations
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.text.parsing import plain_name, read_table_word, whole_number

log = logging.getLogger("replview.spark")
ROWS_PER_PARTITION = 250_000
#: Fields of a filter that are one option each, named like the attribute.
_PLAIN_FIELDS = [field for field in NARROWING_FIELDS if field.name not in ("actor", "states", "id")]
_KNOWN = (
    "relation", "slot", "source", "incarnation", "from_lsn", "to_lsn", "since", "until", "columns",
    "operations", "actors", "states", "gid", "xid", *(field.name for field in _PLAIN_FIELDS),
    "before", "numeric_scale", "dsn", "partitions", "rowsperpartition", "maxrowspertrigger",
    "startingoffsets", "upto", "pushdown", "masked", "excluded", "archive", "failondataloss",
)  # fmt: skip
#: Options that Spark and exports set themselves.
_SET_BY_SPARK = ("path", "files")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the data source."""

    #: Table to read typed; empty for untyped records of all tables.
    relation: str
    request: SliceRequest
    columns: tuple[str, ...] | None
    #: True to give a row for each truncation of the table: its operation was named.
    truncations: bool
    partitions: int | None
    rows_per_partition: int
    #: Approximate number of changes per batch of a stream; None for all.
    max_rows: int | None
    #: Offset at which a new stream begins.
    starting: Mapping[str, int]
    #: Offset that a stream does not pass; None: it follows what is stored.
    up_to: Mapping[str, int] | None
    #: ``true``, ``false``, or ``auto`` to follow Spark's configuration.
    pushdown: str
    #: Columns whose values are left out; None to follow the store's rules.
    masked: Masked | None
    #: Tables that are not read.
    excluded: tuple[str, ...]
    #: Archive from which data that the store has deleted is read.
    archive: Target | None
    #: True to raise an error for data that neither the store nor the archive has.
    fail_on_data_loss: bool
    #: Planned files of an export, which reads nothing else.
    files: PlannedFiles | None
    #: Connection string; not shown, since it may hold a password.
    dsn: str = field(repr=False)

    def shown(self, connection: StoreConnection, part: Slice) -> Slice:
        """Return the slice without tables and columns that must stay hidden."""
        if self.excluded:
            names = known_tables(connection, part)
            # A name without quotes excludes every table that it may mean.
            excluded = {*self.excluded, *map(read_table_word, self.excluded)}
            seen = tuple(n for n in names if not {n, plain_name(n)} & excluded)
            if not seen:
                raise StoreProblem("every table is excluded", "exclude fewer")
            # Search visible tables only: a match would reveal a value.
            searched = seen if part.narrowed.filter.text else None
            narrowed = replace(part.narrowed, searched=searched)
            part = replace(part, tables=part.tables or seen, narrowed=narrowed)
        if self.masked is None:
            return with_rules(connection, part)
        return replace(part, masked=self.masked)

    def table(self, connection: StoreConnection, part: Slice) -> SliceTable | None:
        """Return the table to read typed; None for untyped records."""
        if not self.relation:
            return None
        return chosen(connection, part, self.columns, truncations=self.truncations)

    @classmethod
    def parse(cls, document: Mapping[str, str]) -> "Options":
        """Parse the options. Raises ``StoreProblem`` for invalid ones."""
        given = {name.lower(): value for name, value in document.items()}
        _refuse_unknown(given)
        relation = given.get("relation", "")
        columns = _names(given.get("columns", ""))
        if columns and not relation:
            raise StoreProblem("columns are a table's", "name it with the option relation")
        return cls(
            relation=relation,
            request=_request(given),
            columns=columns or None,
            truncations="truncate" in _names(given.get("operations", "")),
            partitions=_number(given, "partitions"),
            rows_per_partition=_number(given, "rowsperpartition") or ROWS_PER_PARTITION,
            max_rows=_number(given, "maxrowspertrigger"),
            starting=_offset(given, "startingOffsets") or {},
            up_to=_offset(given, "upTo"),
            pushdown=given.get("pushdown", "auto").lower(),
            masked=asked_masks(given.get("masked", "")),
            excluded=_excluded(given.get("excluded", ""), relation),
            archive=Target.of(url) if (url := given.get("archive", "").strip()) else None,
            fail_on_data_loss=_fails(given.get("failondataloss", "true")),
            files=PlannedFiles.from_json(planned) if (planned := given.get("files")) else None,
            dsn=store_dsn(given.get("dsn")),
        )


def _refuse_unknown(names: Iterable[str]) -> None:
    for name in names:
        if name not in (*_KNOWN, *_SET_BY_SPARK):
            remedy = f"{did_you_mean(name, _KNOWN)}there are {', '.join(_KNOWN)}"
            raise StoreProblem(f"there is no option {name!r}", remedy)


def _request(given: Mapping[str, str]) -> SliceRequest:
    """Return the request for a slice."""
    actors = _names(given.get("actors", ""))
    if UNKNOWN_ACTOR in actors and len(actors) > 1:
        raise StoreProblem("? is nobody, and no actor", "name actors, or ? alone")
    nobody = actors == (UNKNOWN_ACTOR,)
    return SliceRequest(
        source=given.get("source") or None,
        slot=given.get("slot") or None,
        incarnation=_number(given, "incarnation"),
        filter=_filter(given, actor=UNKNOWN_ACTOR if nobody else ""),
        actors=() if nobody else actors,
        before=_before(given.get("before", "")),
        numeric_scale=_number(given, "numeric_scale", least=0),
    )


def _filter(given: Mapping[str, str], *, actor: str) -> TransactionFilter:
    """Return the conditions on transactions; ``actor`` is the one of the filter."""
    relation = given.get("relation", "")
    gid, xid = given.get("gid", "").strip(), _number(given, "xid")
    if gid and xid is not None:
        raise StoreProblem("a transaction has one number", "give gid or xid")
    states = _names(given.get("states", ""))
    for state in states:
        if state not in STATES:
            cause = f"no rows are of transactions in the state {state!r}"
            raise StoreProblem(cause, f"choose of {', '.join(STATES)}")
    if states == ("message",) and relation:
        raise StoreProblem(
            "a table has no rows of messages", "leave the option relation out, or choose committed"
        )
    return TransactionFilter(
        tables=(relation,) if relation else (),
        ops=_operations(given.get("operations", "")),
        states=states,
        actor=actor,
        id=gid or ("" if xid is None else str(xid)),
        since=_moment(given, "since"),
        until=_moment(given, "until"),
        from_lsn=_lsn(given, "from_lsn"),
        to_lsn=_lsn(given, "to_lsn"),
        **{field.name: _value(given, field) for field in _PLAIN_FIELDS},
    )


def _operations(text: str) -> str:
    """Return the letters of the operations; without one, all letters."""
    names = _names(text) or OPERATIONS
    for name in names:
        if name not in OPERATIONS:
            cause = f"there is no operation {name!r}"
            raise StoreProblem(cause, f"choose of {', '.join(OPERATIONS)}")
    return read_operations("".join(operation_codes(names)))


def _value(given: Mapping[str, str], field: Field) -> Any:
    """Return the value of an option that is a field of a filter. Raises ``StoreProblem``."""
    if field.is_number:
        return _number(given, field.name) or 0
    text = given.get(field.name, "")
    text = text if field.exact else text.strip()
    value = field.read(text)
    if text and not value:
        raise StoreProblem(f"{field.name} is not valid", f"it is {field.description}")
    return value


def _excluded(text: str, relation: str) -> tuple[str, ...]:
    names = _names(text)
    if relation in names:
        raise StoreProblem(f"{relation} is among the excluded tables", "leave one of the two out")
    return names


def _before(text: str) -> BeforeOrigin:
    word = text.strip().lower() or "sent"
    for origin in BEFORE:
        if word == origin:
            return origin
    raise StoreProblem(
        f"before is sent, derived or full, not {text!r}",
        "derived: rows before updates also from the record (slower); full: whole rows",
    )


def _fails(text: str) -> bool:
    if (found := {"true": True, "false": False}.get(text.strip().lower())) is None:
        raise StoreProblem(f"failOnDataLoss is true or false, not {text!r}", "write one of them")
    return found


def _number(given: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    text = given.get(name, "").strip()
    number = whole_number(text)
    if text and (number is None or number < least):
        raise StoreProblem(f"{name} is no number from {least} on", "write it in digits")
    return number


def _offset(given: Mapping[str, str], name: str) -> dict[str, int] | None:
    """Parse an offset of a stream, such as ``{"1": 5043}``."""
    text = given.get(name.lower(), "")
    if not text.strip():
        return None
    try:
        return {str(int(number)): int(seq) for number, seq in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError):
        raise StoreProblem(
            f"{name} is no offset", 'write how far each incarnation is read, like {"1": 5043}'
        ) from None


def _lsn(given: Mapping[str, str], name: str) -> LSN | None:
    """Parse an LSN such as ``0/1B2C3D8``, or a number as in ``_commit_version``."""
    text = given.get(name, "").strip()
    if not text:
        return None
    if (number := whole_number(text, digits=20)) is not None:
        return LSN(number)
    try:
        return LSN.parse(text)
    except ValueError:
        raise StoreProblem(f"{name} is no LSN", "write it like 0/1B2C3D8") from None


def _moment(given: Mapping[str, str], name: str) -> str:
    """Return the text of a fixed moment: an age would move while a stream runs."""
    text = given.get(name, "").strip()
    try:
        if text:
            dt.datetime.fromisoformat(text)
    except ValueError:
        remedy = "write it like 2026-11-20T07:57:11Z (without a zone: UTC)"
        raise StoreProblem(f"{name} is no time", remedy) from None
    return text


def _names(text: str) -> tuple[str, ...]:
    """Parse ``a, b``, or a JSON list for names with a comma or leading space."""
    if text.lstrip().startswith("["):
        try:
            return tuple(str(name) for name in json.loads(text))
        except ValueError:
            raise StoreProblem("a list of names is no JSON", 'write it like ["a", "b"]') from None
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass
class StorePartition(InputPartition):
    """A partition of the store; it has no address of the store, since plans may be shown."""

    part: Slice
    table: SliceTable | None
    within: SliceRange
    #: Manifest of the archive's slice that has the rows; empty if the store has them.
    manifest: str = ""


def planned(
    connection: StoreConnection, part: Slice, table: SliceTable | None, options: Options
) -> list[StorePartition]:
    """Return non-empty partitions with even numbers of changes, in the order of history.

    Deleted parts of the record get one partition per slice of the archive. Raises ``StoreProblem``.
    """
    rows, found = None if options.partitions else options.rows_per_partition, []
    # Use one snapshot, so that all queries see the same deletions.
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    with connection.transaction():
        for piece, manifest in deleted.pieces(connection, part, options.archive):
            if manifest == deleted.LOST:
                _lose(piece, options)
            elif manifest:
                deleted.refuse_narrowed(piece, table)
                found.append(StorePartition(piece, table, everything(piece), manifest))
            else:
                ranges = cut(connection, piece, table, parts=options.partitions, rows_per_part=rows)
                found += [StorePartition(piece, table, within) for within in ranges]
    return found


def as_spark_has(
    batches: Iterable[pa.RecordBatch], planned_as: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield batches in the schema of Spark's plan, which names fields of lists otherwise."""
    schema = arrow_schema(planned_as)
    for batch in batches:
        yield in_schema(batch.columns, schema)


def _lose(part: Slice, options: Options) -> None:
    """Raise ``StoreProblem`` for data that is nowhere, or log that it is left out."""
    cause = (
        f"retention deleted commit_seq {part.after_seq + 1} to {part.through_seq} of "
        f"{part.source}/{part.slot}, incarnation {part.incarnation}, from the store"
    )
    cause += f", and the archive {options.archive.url} does not have it" if options.archive else ""
    if options.fail_on_data_loss:
        raise StoreProblem(
            cause,
            "name an archive that has it with the option archive, or go on without it with "
            "failOnDataLoss=false",
        )
    log.warning("%s: it is left out", cause)


def read_partition(
    partition: InputPartition, options: Options, planned_as: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, in the schema of Spark's plan.

    Raises ``StoreProblem`` if retention deleted some of them meanwhile, and ``TargetProblem``.
    """
    if not isinstance(partition, StorePartition):
        # Without partitions Spark makes one of its own.
        return
    part, table, within = partition.part, partition.table, partition.within
    with connect(options.dsn) as connection:
        batches = (
            deleted.read_archived(connection, options.archive, partition.manifest, part, table)
            if partition.manifest and options.archive
            else read_untyped(connection, part, within)
            if table is None
            else read_typed(connection, part, table, within, dated=True)
        )  # fmt: skip
        try:
            yield from as_spark_has(batches, planned_as)
        except psycopg.Error as error:
            # The server's text may hold values.
            raise lost_store(error) from None
        # Transactions are deleted before their changes, so check them after reading.
        after, through = ends(part, within)
        if not partition.manifest and manifests.deleted(
            connection, replace(part, after_seq=after, through_seq=through)
        ):
            raise StoreProblem(
                f"retention deleted transactions between commit_seq {after + 1} and {through} "
                "while they were read", "run the query again: it is planned anew",
            )  # fmt: skip
