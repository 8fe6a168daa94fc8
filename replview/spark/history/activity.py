"""Count changes of tables, rows and transactions, and find who changed what."""

# All names in SQL are ours, and values of others are literals.
# ruff: noqa: S608

from collections.abc import Mapping, Sequence
from typing import Any

from replview.parquet.slice_schemas import SliceColumn
from replview.spark.history.change_sql import SQL_PLACE, row_key, value_of
from replview.spark.history.datasets import Dataset, ExportedIncarnation
from replview.spark.history.engines import DataFrame, Session
from replview.spark.history.reach import span_doubts, truncations
from replview.spark.history.replay_piece import BEFORE_UNKNOWN
from replview.spark.history.results import Result, masked_of
from replview.spark.history.row_states import RowStates, replayed
from replview.spark.history.spans import WHOLE, HistoryRange
from replview.spark.quoting import shared_literal

_PERCENTILES = (0.5, 0.9, 0.95, 0.99)
#: The condition for a change of the stream, without baselines and rows before updates.
_OF_STREAM = "_xid IS NOT NULL AND _change_type <> 'update_preimage'"
_COUNTS = """
    count(CASE WHEN _change_type = 'insert' THEN 1 END) AS inserts,
    count(CASE WHEN _change_type = 'update_postimage' THEN 1 END) AS updates,
    count(CASE WHEN _change_type = 'delete' THEN 1 END) AS deletes,
    count(*) AS changes"""


def churn(
    session: Session, dataset: Dataset, span: HistoryRange = WHOLE, *, every: str = "hour"
) -> Result:
    """Count the changes of a table in each minute, hour, day, week or month (UTC) that has some.

    Rows: ``period timestamp, inserts bigint, updates bigint, deletes bigint, changes bigint,
    transactions bigint, actors bigint``, and if rows have a key ``changed_rows bigint``
    (different keys). Baselines do not count.
    """
    rows = f", count(DISTINCT {row_key(dataset)}) AS changed_rows"
    frame = session.sql(
        f"""
        SELECT date_trunc('{every}', _commit_timestamp) AS period, {_COUNTS},
            count(DISTINCT _commit_version) AS transactions, count(DISTINCT _actor) AS actors
            {rows if dataset.tells_rows_apart else ""}
        FROM {{changes}}
        WHERE {span.begun(time="_commit_timestamp")} AND {_OF_STREAM}
        GROUP BY 1 ORDER BY 1
        """,
        changes=dataset.changes(session, span.end),
    )
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
    names = [f"known{n}" for n in range(len(columns))]
    values = [value_of(dataset, column) for column in columns]
    last = ", ".join(
        f"max_by({value}, CASE WHEN {value} IS NOT NULL THEN {SQL_PLACE} END) AS {name}"
        for value, name in zip(values, names, strict=True)
    )
    known = ", ".join(names)
    more = ("inserts", "updates", "deletes", "changes", "actors", "first_change", "last_change")
    frame = session.sql(
        f"""
        SELECT {known}, {", ".join(more)} FROM (
            SELECT row_id, {_COUNTS}, count(DISTINCT _actor) AS actors,
                min(_commit_timestamp) AS first_change, max(_commit_timestamp) AS last_change,
                {last}
            FROM {{changes}}
            WHERE {span.begun(time="_commit_timestamp")} AND operation IS NOT NULL AND NOT nameless
            GROUP BY row_id)
        ORDER BY changes DESC, {known} LIMIT {top}
        """,
        changes=found.frame,
    )
    reasons += found.reasons
    key = [*dataset.version(None).key_columns]
    details = {**dataset.described, "key": key}
    return Result(
        frame.toDF(*(column.name for column in columns), *more), not reasons, reasons, details
    )


def _replayed(
    session: Session, dataset: Dataset, span: HistoryRange, values: Sequence[SliceColumn] = ()
) -> RowStates:
    """Replay all changes until a span ends, since the row before a change may precede the span."""
    changes, cuts = dataset.changes(session, span.end), truncations(session, dataset, span.end)
    return replayed(session, dataset, changes, cuts, values)


def transaction_sizes(
    session: Session, incarnation: ExportedIncarnation, span: HistoryRange = WHOLE
) -> Result:
    """Compute exact percentiles of the sizes of transactions.

    Rows, one each for ``changes`` and ``size_bytes`` (of its messages): ``measure string,
    transactions bigint, mean double, p50 … p99 double, largest bigint, total bigint, largest_xid
    bigint`` (the xid of the largest).
    """
    shares = ", ".join(
        f"percentile_cont({share}) WITHIN GROUP (ORDER BY size) AS p{share * 100:.0f}"
        for share in _PERCENTILES
    )
    frame = session.sql(
        f"""
        SELECT measure, count(*) AS transactions, avg(size) AS mean, {shares},
            max(size) AS largest, CAST(sum(size) AS bigint) AS total,
            max_by(xid, (size, xid)) AS largest_xid
        FROM (
            SELECT 'changes' AS measure, xid, changes AS size FROM {{committed}}
            UNION ALL SELECT 'size_bytes', xid, size_bytes FROM {{committed}})
        GROUP BY measure ORDER BY measure
        """,
        committed=_committed(session, incarnation, span),
    )
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
    period = f"date_trunc('{every}', commit_time) AS period"
    # Older files have only the last actor, no list of all.
    frame = session.sql(
        f"""
        SELECT sums.*, people.actors FROM (
            SELECT {period}, count(*) AS transactions, CAST(sum(changes) AS bigint) AS changes,
                CAST(sum(size_bytes) AS bigint) AS size_bytes, max(changes) AS largest
            FROM {{committed}} GROUP BY 1) AS sums
        JOIN (
            SELECT period, count(DISTINCT CASE WHEN is_old THEN actor ELSE one END) AS actors
            FROM (SELECT {period}, actors IS NULL AS is_old, actor, explode_outer(actors) AS one
                FROM {{committed}})
            GROUP BY 1) AS people ON people.period IS NOT DISTINCT FROM sums.period
        ORDER BY period
        """,
        committed=_committed(session, incarnation, span),
    )
    reasons = span_doubts(session, incarnation, span)
    details = {"incarnation": incarnation.name, "every": every}
    return Result(frame, not reasons, reasons, details)


def _committed(session: Session, incarnation: ExportedIncarnation, span: HistoryRange) -> DataFrame:
    """Return the stream's transactions, without baselines and messages outside of transactions."""
    return session.sql(
        f"""
        SELECT *, inserts + updates + deletes + truncates AS changes FROM {{transactions}}
        WHERE state = 'committed' AND {span.within(time="commit_time")}
        """,
        transactions=incarnation.transactions(session),
    )


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
    frames: dict[str, DataFrame] = {}
    lost: list[str] = []
    for n, each in enumerate(datasets):
        if each.tells_rows_apart:
            found = _replayed(session, each, span)
            frames[f"table{n}"] = _of_table(session, found.frame, each, span, hidden[each.name])
            lost += [f"of {each.name} {reason}" for reason in found.reasons]
        else:
            frames[f"table{n}"] = _not_compared(session, each, span)
    all_tables = " UNION ALL ".join(f"SELECT * FROM {{{name}}}" for name in frames)
    order = "changes DESC, table_name, actor, operation, column_name"
    frame = session.sql(f"SELECT * FROM ({all_tables}) ORDER BY {order}", **frames)
    details: dict[str, Any] = {"tables": list(hidden)}
    if any(hidden.values()):
        details["not_counted"] = [f"{n}.{column}" for n in hidden for column in sorted(hidden[n])]
    if apart := [each.name for each in datasets if not each.tells_rows_apart]:
        details["not_compared_for_want_of_one_key"] = apart
    reasons = (*span_doubts(session, datasets[0].incarnation, span, datasets), *lost)
    names = ("actor", "table", "operation", "column", "changes")
    return Result(frame.toDF(*names), not reasons, reasons, details)


def _not_compared(session: Session, dataset: Dataset, span: HistoryRange) -> DataFrame:
    """Count changes of whole rows, for a table whose rows have no key."""
    return session.sql(
        f"""
        SELECT _actor AS actor, {shared_literal(dataset.name)} AS table_name,
            CASE WHEN _change_type = 'update_postimage' THEN '{BEFORE_UNKNOWN}'
                ELSE _change_type END AS operation,
            CAST(NULL AS string) AS column_name, count(*) AS changes
        FROM {{changes}}
        WHERE {span.begun(time="_commit_timestamp")} AND {_OF_STREAM}
        GROUP BY _actor, _change_type
        """,
        changes=dataset.changes(session, span.end),
    )


def _of_table(
    session: Session, changes: DataFrame, dataset: Dataset, span: HistoryRange,
    hidden: frozenset[str],
) -> DataFrame:  # fmt: skip
    """Count what replayed changes did to visible columns."""
    names = ", ".join(map(shared_literal, sorted(hidden)))
    visible = f"AND column_name NOT IN ({names})" if hidden else ""
    # Of a change of a whole row no column is listed.
    return session.sql(
        f"""
        SELECT actor, {shared_literal(dataset.name)} AS table_name, operation, column_name,
            count(*) AS changes
        FROM (SELECT _actor AS actor, operation, explode_outer(changed) AS column_name
            FROM {{changes}}
            WHERE {span.begun(time="_commit_timestamp")} AND operation IS NOT NULL)
        WHERE operation <> 'update' OR column_name IS NOT NULL {visible}
        GROUP BY actor, operation, column_name
        """,
        changes=changes,
    )
