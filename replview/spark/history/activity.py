"""How much changes, in a table, its rows, transactions; and who changed what."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from replview.parquet.slice_schemas import Column
from replview.spark.history.datasets import Dataset, Incarnation
from replview.spark.history.reach import WHOLE, Span, span_doubts, truncations
from replview.spark.history.results import Result, masked_of
from replview.spark.history.row_intervals import (
    GONE,
    INTERVAL,
    by_key,
    key_names,
    place,
    placed,
    raw,
    with_intervals,
)
from replview.spark.history.row_keys import Keyed, keyed
from replview.spark.quoting import tick

_PERCENTILES = (0.5, 0.9, 0.95, 0.99)


def churn(
    spark: SparkSession, dataset: Dataset, span: Span = WHOLE, *, every: str = "hour"
) -> Result:
    """Changes of a table in each minute, hour, day, week or month (UTC) that has some.

    Rows: ``period timestamp, inserts bigint, updates bigint, deletes bigint, changes bigint,
    transactions bigint, actors bigint`` (counted), and where rows have a key ``changed_rows
    bigint`` (about: different keys). Baselines are no changes.
    """
    changes = _changes(spark, dataset, span)
    counts = [*_counts(), F.count_distinct("_commit_version").alias("transactions"),
              F.count_distinct("_actor").alias("actors")]  # fmt: skip
    key = key_names(dataset.key_columns) if dataset.tells_rows_apart else []
    if key:
        changes = placed(changes, dataset)
        counts.append(F.approx_count_distinct(F.struct(*key)).alias("changed_rows"))
    period = F.date_trunc(every, "_commit_timestamp").alias("period")
    frame = changes.groupBy(period).agg(*counts).orderBy("period")
    reasons = span_doubts(spark, dataset.incarnation, span, [dataset])
    return Result(frame, not reasons, reasons, {**dataset.described, "every": every})


def hot_rows(spark: SparkSession, dataset: Dataset, span: Span = WHOLE, *, top: int = 20) -> Result:
    """The rows that changed most often.

    Rows, most changes first: the key's columns (of all its keys, as last known), ``inserts,
    updates, deletes, changes bigint, actors bigint, first_change, last_change timestamp``. Raises
    ``SparkProblem`` where rows cannot be told apart.
    """
    columns, reasons = dataset.key_columns, span_doubts(spark, dataset.incarnation, span, [dataset])
    if len(dataset.keys) == 1:
        found = keyed(dataset, _changes(spark, dataset, span))
    else:
        # Which row is which is known from the beginning on.
        found = _keyed(spark, dataset, span)
        own = _stream(span.since_of(found.rows, time="_commit_timestamp"))
        found = replace(found, rows=own)
    more = ("inserts", "updates", "deletes", "changes", "actors", "first_change", "last_change")
    last = {
        column.name: F.max_by(tick(column.name), F.when(there, place()))
        for column in columns
        for there in [F.col(tick(column.name)).isNotNull()]
    }
    frame = (
        found.rows.groupBy(*found.names)
        .agg(
            *_counts(),
            F.count_distinct("_actor").alias("actors"),
            F.min("_commit_timestamp").alias("first_change"),
            F.max("_commit_timestamp").alias("last_change"),
            *(value.alias(f"_known{n}") for n, value in enumerate(last.values())),
        )
        .orderBy(F.col("changes").desc(), *found.names)
        .limit(top)
        .select(*(F.col(f"_known{n}").alias(name) for n, name in enumerate(last)), *more)
    )
    reasons += found.reasons
    key = [*dataset.version(None).key_columns]
    return Result(frame, not reasons, reasons, {**dataset.described, "key": key})


def _keyed(
    spark: SparkSession, dataset: Dataset, span: Span, *, keep_nameless: bool = False
) -> Keyed:
    """All changes until a span ends; where the key changed, a truncation ended rows, too."""
    cut = truncations(spark, dataset, span.end) if len(dataset.keys) > 1 else []
    return keyed(dataset, dataset.changes(spark, span.end), [(lsn, seq) for lsn, seq, _ in cut],
                 keep_nameless=keep_nameless)  # fmt: skip


def _changes(spark: SparkSession, dataset: Dataset, span: Span) -> DataFrame:
    """One row a change of the stream."""
    rows = dataset.changes(spark, span.end)
    return _stream(span.since_of(rows, time="_commit_timestamp"))


def _stream(rows: DataFrame) -> DataFrame:
    """Without baselines and rows before updates."""
    return rows.where(F.col("_xid").isNotNull() & (F.col("_change_type") != "update_preimage"))


def _counts() -> list[Any]:
    kind = F.col("_change_type")
    return [
        F.count_if(kind == "insert").alias("inserts"),
        F.count_if(kind == "update_postimage").alias("updates"),
        F.count_if(kind == "delete").alias("deletes"),
        F.count("*").alias("changes"),
    ]


def transaction_sizes(spark: SparkSession, incarnation: Incarnation, span: Span = WHOLE) -> Result:
    """Percentiles of what a transaction holds, exact.

    Rows, one each for ``changes`` and ``size_bytes`` (of its messages): ``measure string,
    transactions bigint, mean double, p50 … p99 double, largest bigint, total bigint, largest_xid
    bigint`` (the xid of the largest).
    """
    found = _committed(spark, incarnation, span)
    both = found.select(
        "xid",
        F.explode(F.create_map(F.lit("changes"), "changes", F.lit("size_bytes"), "size_bytes"))
        .alias("measure", "value"),
    )  # fmt: skip
    shares = F.percentile("value", F.array(*map(F.lit, _PERCENTILES)))
    frame = (
        both.groupBy("measure")
        .agg(
            F.count("*").alias("transactions"),
            F.avg("value").alias("mean"),
            shares.alias("shares"),
            F.max("value").alias("largest"),
            F.sum("value").alias("total"),
            F.max_by("xid", "value").alias("largest_xid"),
        )
        .orderBy("measure")
    )
    percentiles = [
        F.col("shares")[n].alias(f"p{share * 100:.0f}") for n, share in enumerate(_PERCENTILES)
    ]
    chosen = ("largest", "total", "largest_xid")
    frame = frame.select("measure", "transactions", "mean", *percentiles, *chosen)
    reasons = span_doubts(spark, incarnation, span)
    return Result(frame, not reasons, reasons, {"life": incarnation.name})


def transaction_rates(
    spark: SparkSession, incarnation: Incarnation, span: Span = WHOLE, *, every: str = "minute"
) -> Result:
    """Transactions committed in each minute (hour, day …; UTC) that has some.

    Rows: ``period timestamp, transactions bigint, changes bigint, size_bytes bigint, largest
    bigint`` (changes of the largest), ``actors bigint``.
    """
    # Files of before the list of all was there name the last one alone.
    named = F.coalesce("actors", F.array_compact(F.array("actor")))
    frame = (
        _committed(spark, incarnation, span)
        .groupBy(F.date_trunc(every, "commit_time").alias("period"))
        .agg(
            F.count("*").alias("transactions"),
            F.sum("changes").alias("changes"),
            F.sum("size_bytes").alias("size_bytes"),
            F.max("changes").alias("largest"),
            F.size(F.array_distinct(F.flatten(F.collect_set(named)))).alias("actors"),
        )
        .orderBy("period")
    )
    reasons = span_doubts(spark, incarnation, span)
    return Result(frame, not reasons, reasons, {"life": incarnation.name, "every": every})


def _committed(spark: SparkSession, incarnation: Incarnation, span: Span) -> DataFrame:
    """The stream's transactions: neither baselines nor messages outside of any."""
    counted: Any = F.col("inserts") + F.col("updates") + F.col("deletes") + F.col("truncates")
    found = incarnation.transactions(spark).where(F.col("state") == "committed")
    return span.of(found, time="commit_time").withColumn("changes", counted)


_BEFORE_UNKNOWN = "update, before unknown"


def who_changed(
    spark: SparkSession,
    datasets: Sequence[Dataset],
    span: Span = WHOLE,
    masked: Mapping[str, Sequence[str]] | None = None,
) -> Result:
    """Who changed which column how often, by comparing each update with the row before it.

    Rows, most changes first: ``actor string`` (null: nobody said), ``table string, operation
    string`` (insert, update, delete), ``column string, changes bigint``. Inserts and deletes are of
    whole rows: their ``column`` is null. So is that of updates of which nothing tells the row
    before (counted apart as ``update, before unknown``). A column that the server did not send
    because it stayed as it was did not change. Of a ``masked`` one nobody is told whether it did:
    it is not counted. Of a table whose rows cannot be told apart changes are counted, and no update
    is compared.
    """
    hidden = {each.name: masked_of(each, masked or {}) for each in datasets}
    frames, lost = [], []
    for each in datasets:
        if each.tells_rows_apart:
            found = _keyed(spark, each, span, keep_nameless=True)
            frames.append(_of_table(found, each, span, hidden[each.name]))
            lost += [f"of {each.name} {reason}" for reason in found.reasons]
        else:
            frames.append(_not_compared(spark, each, span))
    frame = reduce(lambda one, other: one.unionByName(other), frames)
    order = (F.col("changes").desc(), "table", "actor", "operation", "column")
    details: dict[str, Any] = {"tables": list(hidden)}
    if any(hidden.values()):
        details["not_counted"] = [f"{n}.{column}" for n in hidden for column in sorted(hidden[n])]
    if apart := [each.name for each in datasets if not each.tells_rows_apart]:
        details["not_compared_for_want_of_one_key"] = apart
    reasons = (*span_doubts(spark, datasets[0].incarnation, span, datasets), *lost)
    return Result(frame.orderBy(*order), not reasons, reasons, details)


def _not_compared(spark: SparkSession, dataset: Dataset, span: Span) -> DataFrame:
    """Changes of whole rows, where nothing tells which row was which before."""
    kind = F.col("_change_type")
    operation = F.when(kind == "update_postimage", _BEFORE_UNKNOWN).otherwise(kind)
    by = F.col("_actor").alias("actor"), operation.alias("operation")
    counted = _changes(spark, dataset, span).groupBy(*by).agg(F.count("*").alias("changes"))
    table, column = F.lit(dataset.name).alias("table"), F.lit(None).cast("string").alias("column")
    return counted.select("actor", table, "operation", column, "changes")


def _of_table(found: Keyed, dataset: Dataset, span: Span, hidden: frozenset[str]) -> DataFrame:
    # Without rows before updates none has moved to another key.
    may_move = not found.rows.where(F.col("_change_type") == "update_preimage").isEmpty()
    # The row before may have been left so before the span.
    rows = with_intervals(found.rows, found.names)
    seen = [column for column in dataset.columns if column.source_name not in hidden]
    rows = _with_before(rows, found.names, seen)
    if may_move:
        rows = _with_moves(rows, seen)
    else:
        # Nothing is known before a row begins.
        known = {f"_before{n}": F.when(~F.col("_begins"), F.col(f"_before{n}"))
                 for n in range(len(seen))}  # fmt: skip
        rows = rows.withColumns(known | {"_moved": F.lit(False)})
    rows = _stream(span.since_of(rows, time="_commit_timestamp"))
    changed = rows.select(F.col("_actor").alias("actor"), F.explode(_events(seen)).alias("event"))
    counted = changed.groupBy("actor", "event.operation", "event.column").agg(
        F.count("*").alias("changes")
    )
    return counted.select(
        "actor", F.lit(dataset.name).alias("table"), "operation", "column", "changes"
    )


def _with_before(rows: DataFrame, names: Sequence[str], columns: Sequence[Column]) -> DataFrame:
    """``_before<n>``: the digest of a column's last known value before a change under the same key;
    null: unknown.
    """
    before = by_key(names).rowsBetween(-(1 << 31), -1)
    added = {}
    for n, column in enumerate(columns):
        mine = F.struct(_digest(column).alias("digest"), F.col(INTERVAL).alias("interval"))
        last = F.last(F.when(_sent(column), mine), ignorenulls=True)
        added[f"_before{n}"] = last.over(before)
    here = {name: F.col(name)["interval"] == F.col(INTERVAL) for name in added}
    return rows.withColumns(added).withColumns(
        {name: F.when(same, F.col(name)["digest"]) for name, same in here.items()}
    )


def _with_moves(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """``_before<n>`` also of an update that moved its row to another key, and ``_moved``."""
    names = [f"_before{n}" for n in range(len(columns))]
    left = rows.where(F.col(GONE) & (F.col("_change_type") == "update_preimage")).select(
        "_commit_version",
        "_seq",
        F.lit(True).alias("_moved"),
        *(
            F.when(_sent(column), _digest(column)).otherwise(F.col(name)).alias(f"{name}x")
            for name, column in zip(names, columns, strict=True)
        ),
    )
    joined = rows.join(left, ["_commit_version", "_seq"], "left")
    return joined.withColumns({
        name: F.when(F.col("_begins"), F.col(f"{name}x")).otherwise(F.col(name)) for name in names
    })  # fmt: skip


def _sent(column: Column) -> Expression:
    return ~F.array_contains("_not_sent", column.source_name)


def _digest(column: Column) -> Expression:
    """A value as a number, also one that its column cannot hold."""
    # A hash leaves nulls out: what is null is said beside.
    value, text = F.col(tick(column.name)), raw(column)
    return F.xxhash64(value.isNull(), value, text.isNull(), text)


def _events(columns: Sequence[Column]) -> Expression:
    """What one change did to columns that may be seen: ``array<struct<operation, column>>``."""

    def event(operation: str, column: str | None) -> Expression:
        name = F.lit(column).cast("string")
        return F.struct(F.lit(operation).alias("operation"), name.alias("column"))

    begins = F.col("_begins")
    changed = []
    for n, column in enumerate(columns):
        before = F.col(f"_before{n}")
        # A large value that was not sent before and is now: it did change.
        same = F.coalesce(before == _digest(column), begins & before.isNull())
        changed.append(F.when(_sent(column) & ~same, event("update", column.source_name)))
    kind = F.col("_change_type")
    unknown = F.array(event(_BEFORE_UNKNOWN, None))
    # Gives an array without events its type.
    nothing = F.when(F.lit(False), event("", None))
    return (
        F.when(kind == "insert", F.array(event("insert", None)))
        .when(kind == "delete", F.array(event("delete", None)))
        .when(begins & ~F.coalesce("_moved", F.lit(False)), unknown)
        .otherwise(F.array_compact(F.array(*changed, nothing)))
    )
