"""Count changes of tables, rows and transactions, and find who changed what."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from replview.parquet.slice_schemas import PARTITION, SliceColumn
from replview.spark.history.datasets import Dataset, ExportedIncarnation
from replview.spark.history.engines import DataFrame, Expression, F, Session, Window
from replview.spark.history.reach import WHOLE, HistoryRange, span_doubts, truncations
from replview.spark.history.results import Result, masked_of
from replview.spark.history.row_intervals import (
    GONE,
    PLACE,
    RANK,
    STREAM,
    by_key,
    key_names,
    place,
    placed,
    raw,
    with_ends,
)
from replview.spark.history.row_keys import Keyed, keyed
from replview.spark.quoting import tick

_PERCENTILES = (0.5, 0.9, 0.95, 0.99)


def churn(
    session: Session, dataset: Dataset, span: HistoryRange = WHOLE, *, every: str = "hour"
) -> Result:
    """Count the changes of a table in each minute, hour, day, week or month (UTC) that has some.

    Rows: ``period timestamp, inserts bigint, updates bigint, deletes bigint, changes bigint,
    transactions bigint, actors bigint``, and if rows have a key ``changed_rows bigint``
    (different keys). Baselines do not count.
    """
    changes = _changes(session, dataset, span)
    counts = [*_counts(), F.count_distinct("_commit_version").alias("transactions"),
              F.count_distinct("_actor").alias("actors")]  # fmt: skip
    key = key_names(dataset.key_columns) if dataset.tells_rows_apart else []
    if key:
        changes = placed(changes, dataset)
        counts.append(F.count_distinct(F.struct(*key)).alias("changed_rows"))
    period = F.date_trunc(every, "_commit_timestamp").alias("period")
    frame = changes.groupBy(period).agg(*counts).orderBy("period")
    reasons = span_doubts(session, dataset.incarnation, span, [dataset])
    return Result(frame, not reasons, reasons, {**dataset.described, "every": every})


def hot_rows(
    session: Session, dataset: Dataset, span: HistoryRange = WHOLE, *, top: int = 20
) -> Result:
    """Return the rows that changed most often.

    Rows, most changes first: the key's columns (of all its keys, as last known), ``inserts,
    updates, deletes, changes bigint, actors bigint, first_change, last_change timestamp``. Raises
    ``SparkProblem`` if the table has no key.
    """
    columns = dataset.key_columns
    reasons = span_doubts(session, dataset.incarnation, span, [dataset])
    if len(dataset.keys) == 1:
        found = keyed(dataset, _changes(session, dataset, span))
    else:
        # Keys are followed from the beginning, so read all changes before the span too.
        found = _keyed(session, dataset, span)
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
    session: Session, dataset: Dataset, span: HistoryRange, *, keep_nameless: bool = False
) -> Keyed:
    """Return all changes until a span ends; if the key changed, truncations end rows too."""
    cut = truncations(session, dataset, span.end) if len(dataset.keys) > 1 else None
    return keyed(dataset, dataset.changes(session, span.end), cut, keep_nameless=keep_nameless)


def _changes(session: Session, dataset: Dataset, span: HistoryRange) -> DataFrame:
    """Return one row per change of the stream."""
    rows = dataset.changes(session, span.end)
    return _stream(span.since_of(rows, time="_commit_timestamp"))


def _stream(rows: DataFrame) -> DataFrame:
    """Return the rows without baselines and without rows before updates."""
    return rows.where(F.col("_xid").isNotNull() & (F.col("_change_type") != "update_preimage"))


def _counts() -> list[Any]:
    kind = F.col("_change_type")
    return [
        F.count_if(kind == "insert").alias("inserts"),
        F.count_if(kind == "update_postimage").alias("updates"),
        F.count_if(kind == "delete").alias("deletes"),
        F.count("*").alias("changes"),
    ]


def transaction_sizes(
    session: Session, incarnation: ExportedIncarnation, span: HistoryRange = WHOLE
) -> Result:
    """Compute exact percentiles of the sizes of transactions.

    Rows, one each for ``changes`` and ``size_bytes`` (of its messages): ``measure string,
    transactions bigint, mean double, p50 … p99 double, largest bigint, total bigint, largest_xid
    bigint`` (the xid of the largest).
    """
    found = _committed(session, incarnation, span)
    measures = F.array(*(
        F.struct(F.lit(name).alias("measure"), F.col(name).alias("value"))
        for name in ("changes", "size_bytes")
    ))  # fmt: skip
    both = found.select("xid", F.explode(measures).alias("of")).select(
        "xid", "of.measure", "of.value"
    )
    shares = F.percentile("value", F.array(*map(F.lit, _PERCENTILES)))
    frame = (
        both.groupBy("measure")
        .agg(
            F.count("*").alias("transactions"),
            F.avg("value").alias("mean"),
            shares.alias("shares"),
            F.max("value").alias("largest"),
            F.sum("value").alias("total"),
            F.max_by("xid", F.struct("value", "xid")).alias("largest_xid"),
        )
        .orderBy("measure")
    )
    percentiles = [
        F.col("shares")[n].alias(f"p{share * 100:.0f}") for n, share in enumerate(_PERCENTILES)
    ]
    chosen = ("largest", "total", "largest_xid")
    frame = frame.select("measure", "transactions", "mean", *percentiles, *chosen)
    reasons = span_doubts(session, incarnation, span)
    return Result(frame, not reasons, reasons, {"incarnation": incarnation.name})


def transaction_rates(
    session: Session,
    incarnation: ExportedIncarnation,
    span: HistoryRange = WHOLE,
    *,
    every: str = "minute",
) -> Result:
    """Count the transactions committed in each minute (hour, day …; UTC) that has some.

    Rows: ``period timestamp, transactions bigint, changes bigint, size_bytes bigint, largest
    bigint`` (changes of the largest), ``actors bigint``.
    """
    # Older files have only the last actor, no list of all.
    named = F.coalesce("actors", F.array_compact(F.array("actor")))
    frame = (
        _committed(session, incarnation, span)
        .groupBy(F.date_trunc(every, "commit_time").alias("period"))
        .agg(
            F.count("*").alias("transactions"),
            F.sum("changes").alias("changes"),
            F.sum("size_bytes").alias("size_bytes"),
            F.max("changes").alias("largest"),
            F.size(F.array_distinct(F.flatten(F.collect_set(named))))
            .cast("bigint")
            .alias("actors"),
        )
        .orderBy("period")
    )
    reasons = span_doubts(session, incarnation, span)
    details = {"incarnation": incarnation.name, "every": every}
    return Result(frame, not reasons, reasons, details)


def _committed(session: Session, incarnation: ExportedIncarnation, span: HistoryRange) -> DataFrame:
    """Return the stream's transactions, without baselines and messages outside of transactions."""
    counted: Any = F.col("inserts") + F.col("updates") + F.col("deletes") + F.col("truncates")
    found = incarnation.transactions(session).where(F.col("state") == "committed")
    return span.of(found, time="commit_time").withColumn("changes", counted)


_BEFORE_UNKNOWN = "update, before unknown"


def who_changed(
    session: Session,
    datasets: Sequence[Dataset],
    span: HistoryRange = WHOLE,
    masked: Mapping[str, Sequence[str]] | None = None,
) -> Result:
    """Count who changed which column how often, by comparing each update with the row before it.

    Rows, most changes first: ``actor string`` (null when unknown), ``table string, operation
    string`` (insert, update, delete), ``column string, changes bigint``. ``column`` is null for
    inserts and deletes, which are of whole rows, and for updates whose earlier row is unknown
    (counted separately as ``update, before unknown``). A column that the server did not send,
    because it was unchanged, did not change. ``masked`` columns are not counted, so that nothing is
    revealed about them. For a table without key, changes are counted and updates are not compared.
    """
    hidden = {each.name: masked_of(each, masked or {}) for each in datasets}
    frames, lost = [], []
    for each in datasets:
        if each.tells_rows_apart:
            found = _keyed(session, each, span, keep_nameless=True)
            frames.append(_of_table(found, each, span, hidden[each.name]))
            lost += [f"of {each.name} {reason}" for reason in found.reasons]
        else:
            frames.append(_not_compared(session, each, span))
    frame = reduce(lambda one, other: one.unionByName(other), frames)
    order = (F.col("changes").desc(), "table", "actor", "operation", "column")
    details: dict[str, Any] = {"tables": list(hidden)}
    if any(hidden.values()):
        details["not_counted"] = [f"{n}.{column}" for n in hidden for column in sorted(hidden[n])]
    if apart := [each.name for each in datasets if not each.tells_rows_apart]:
        details["not_compared_for_want_of_one_key"] = apart
    reasons = (*span_doubts(session, datasets[0].incarnation, span, datasets), *lost)
    return Result(frame.orderBy(*order), not reasons, reasons, details)


def _not_compared(session: Session, dataset: Dataset, span: HistoryRange) -> DataFrame:
    """Count changes of whole rows, for a table whose rows have no key."""
    kind = F.col("_change_type")
    operation = F.when(kind == "update_postimage", _BEFORE_UNKNOWN).otherwise(kind)
    by = F.col("_actor").alias("actor"), operation.alias("operation")
    counted = _changes(session, dataset, span).groupBy(*by).agg(F.count("*").alias("changes"))
    table, column = F.lit(dataset.name).alias("table"), F.lit(None).cast("string").alias("column")
    return counted.select("actor", table, "operation", column, "changes")


def _of_table(
    found: Keyed, dataset: Dataset, span: HistoryRange, hidden: frozenset[str]
) -> DataFrame:
    # Without rows before updates no row has moved to another key; one column shows that.
    may_move = not found.rows.where(F.col("_change_type") == "update_preimage").isEmpty()
    seen = [column for column in dataset.columns if column.source_name not in hidden]
    digests = [F.when(_sent(each), _digest(each)).alias(f"_now{n}") for n, each in enumerate(seen)]
    # Sort only digests of the values.
    rows = found.rows.select(
        *PLACE, *found.names, "_epoch", "_change_type", "_xid", "_actor", "_commit_timestamp",
        PARTITION, *digests,
    )  # fmt: skip
    # Compare before narrowing to the span, since the earlier row may precede it.
    rows = _with_before(with_ends(rows, found.names), found.names, len(seen))
    came = _with_moves(rows, len(seen)) if may_move else rows.withColumn("_moved", F.lit(False))
    rows = _stream(span.since_of(came, time="_commit_timestamp"))
    changed = rows.select(F.col("_actor").alias("actor"), F.explode(_events(seen)).alias("event"))
    counted = changed.groupBy("actor", "event.operation", "event.column").agg(
        F.count("*").alias("changes")
    )
    return counted.select(
        "actor", F.lit(dataset.name).alias("table"), "operation", "column", "changes"
    )


def _with_before(rows: DataFrame, names: Sequence[str], columns: int) -> DataFrame:
    """Add ``_before<n>``: the digest of a column's last value in this interval, or null."""
    before = by_key(names, "_epoch").rowsBetween(-(1 << 31), -1)
    begins = F.col("_begins")
    told = {}
    for n in range(columns):
        now = F.col(f"_now{n}")
        # Values of an earlier row under the same key do not count.
        known = F.when(begins | now.isNotNull(), F.struct(now.alias("value")))
        last = F.last(known, ignorenulls=True).over(before)
        told[f"_before{n}"] = F.when(~begins, last["value"])
    return rows.withColumns(told)


def _with_moves(rows: DataFrame, columns: int) -> DataFrame:
    """Set ``_before<n>`` also for updates that moved their row to another key; add ``_moved``."""
    of_change = Window.partitionBy("_commit_version", STREAM, "_seq").orderBy(RANK)

    def left(value: Expression | str) -> Expression:
        """Return a value of the row before the update, which has the key before."""
        return F.lag(value).over(of_change)

    moved = F.col("_begins") & (F.col("_change_type") == "update_postimage")
    moved &= (left("_change_type") == "update_preimage") & left(GONE)
    rows = rows.withColumns({
        "_moved": F.coalesce(moved, F.lit(False)),
        **{f"_left{n}": left(F.coalesce(f"_now{n}", f"_before{n}")) for n in range(columns)},
    })  # fmt: skip
    return rows.withColumns({
        f"_before{n}": F.when(F.col("_moved"), F.col(f"_left{n}")).otherwise(F.col(f"_before{n}"))
        for n in range(columns)
    })  # fmt: skip


def _sent(column: SliceColumn) -> Expression:
    return ~F.array_contains("_not_sent", column.source_name)


def _digest(column: SliceColumn) -> Expression:
    """Return a hash of a value, including one that its column cannot hold."""
    # A hash ignores nulls, so add whether each part is null.
    value, text = F.col(tick(column.name)), raw(column)
    return F.xxhash64(value.isNull(), value, text.isNull(), text)


def _events(columns: Sequence[SliceColumn]) -> Expression:
    """Return what a change did to visible columns: ``array<struct<operation, column>>``."""

    def event(operation: str, column: str | None) -> Expression:
        name = F.lit(column).cast("string")
        return F.struct(F.lit(operation).alias("operation"), name.alias("column"))

    begins = F.col("_begins")
    changed = []
    for n, column in enumerate(columns):
        before, now = F.col(f"_before{n}"), F.col(f"_now{n}")
        # A large value that was not sent before and is sent now has changed.
        same = F.coalesce(before == now, begins & before.isNull())
        changed.append(F.when(now.isNotNull() & ~same, event("update", column.source_name)))
    kind = F.col("_change_type")
    unknown = F.array(event(_BEFORE_UNKNOWN, None))
    # This element gives an empty array its type.
    nothing = F.when(F.lit(False), event("", None))
    return (
        F.when(kind == "insert", F.array(event("insert", None)))
        .when(kind == "delete", F.array(event("delete", None)))
        .when(begins & ~F.col("_moved"), unknown)
        .otherwise(F.array_compact(F.array(*changed, nothing)))
    )
