"""Count changes of tables, rows and transactions, and find who changed what."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from replview.parquet.slice_schemas import SliceColumn
from replview.spark.history.datasets import Dataset, ExportedIncarnation
from replview.spark.history.engines import DataFrame, Expression, F, Session
from replview.spark.history.reach import span_doubts, truncations
from replview.spark.history.replay_piece import BEFORE_UNKNOWN
from replview.spark.history.results import Result, masked_of
from replview.spark.history.row_states import RowStates, place, replayed, row_key, value_of
from replview.spark.history.spans import WHOLE, HistoryRange

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
    if dataset.tells_rows_apart:
        counts.append(F.count_distinct(row_key(dataset)).alias("changed_rows"))
    period = F.date_trunc(every, "_commit_timestamp").alias("period")
    frame = changes.groupBy(period).agg(*counts).orderBy("period")
    reasons = span_doubts(session, dataset.incarnation, span, [dataset])
    return Result(frame, not reasons, reasons, {**dataset.described, "every": every})


def hot_rows(
    session: Session, dataset: Dataset, span: HistoryRange = WHOLE, *, top: int = 20
) -> Result:
    """Return the rows that changed most often; a row that moves is counted under each of its keys.

    Rows, most changes first: the key's columns (of all its keys, as last known), ``inserts,
    updates, deletes, changes bigint, actors bigint, first_change, last_change timestamp``. Raises
    ``SparkProblem`` if the table has no key.
    """
    columns = dataset.key_columns
    reasons = span_doubts(session, dataset.incarnation, span, [dataset])
    found = _replayed(session, dataset, span, columns)
    rows = span.since_of(found.frame, time="_commit_timestamp")
    rows = rows.where(_is_counted() & ~F.col("nameless"))
    more = ("inserts", "updates", "deletes", "changes", "actors", "first_change", "last_change")
    values = [value_of(dataset, column) for column in columns]
    last = [F.max_by(value, F.when(value.isNotNull(), place())) for value in values]
    known = [f"known{n}" for n in range(len(columns))]
    frame = (
        rows.groupBy("row")
        .agg(
            *_counts(),
            F.count_distinct("_actor").alias("actors"),
            F.min("_commit_timestamp").alias("first_change"),
            F.max("_commit_timestamp").alias("last_change"),
            *(value.alias(name) for value, name in zip(last, known, strict=True)),
        )
        .orderBy(F.col("changes").desc(), *known)
        .limit(top)
        .select(
            *(F.col(name).alias(each.name) for name, each in zip(known, columns, strict=True)),
            *more,
        )
    )
    reasons += found.reasons
    key = [*dataset.version(None).key_columns]
    return Result(frame, not reasons, reasons, {**dataset.described, "key": key})


def _replayed(
    session: Session, dataset: Dataset, span: HistoryRange, values: Sequence[SliceColumn] = ()
) -> RowStates:
    """Replay all changes until a span ends, since the row before a change may precede the span."""
    changes, cuts = dataset.changes(session, span.end), truncations(session, dataset, span.end)
    return replayed(session, dataset, changes, cuts, values)


def _is_counted() -> Expression:
    """Return the test for a change of the stream, not counted elsewhere."""
    return F.col("operation").isNotNull()


def _changes(session: Session, dataset: Dataset, span: HistoryRange) -> DataFrame:
    """Return one row per change of the stream, without baselines."""
    rows = span.since_of(dataset.changes(session, span.end), time="_commit_timestamp")
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
            found = _replayed(session, each, span)
            frames.append(_of_table(found.frame, each, span, hidden[each.name]))
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
    operation = F.when(kind == "update_postimage", BEFORE_UNKNOWN).otherwise(kind)
    by = F.col("_actor").alias("actor"), operation.alias("operation")
    counted = _changes(session, dataset, span).groupBy(*by).agg(F.count("*").alias("changes"))
    table, column = F.lit(dataset.name).alias("table"), F.lit(None).cast("string").alias("column")
    return counted.select("actor", table, "operation", column, "changes")


def _of_table(
    changes: DataFrame, dataset: Dataset, span: HistoryRange, hidden: frozenset[str]
) -> DataFrame:
    """Count what replayed changes did to visible columns."""
    visible = [c.source_name for c in dataset.columns if c.source_name not in hidden]
    changed = F.filter(F.col("changed"), lambda one: one.isin(visible))
    whole = F.array(F.lit(None).cast("string"))
    columns = F.when(F.col("operation") == "update", changed).otherwise(whole)
    rows = span.since_of(changes, time="_commit_timestamp").where(_is_counted())
    rows = rows.select(
        F.col("_actor").alias("actor"), F.lit(dataset.name).alias("table"), "operation",
        F.explode(columns).alias("column"),
    )  # fmt: skip
    by = ("actor", "table", "operation", "column")
    return rows.groupBy(*by).agg(F.count("*").alias("changes"))
