"""Build the lag page's charts and their CSV from the samples and the sums per minute."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from replview.access.visibility import reading_session
from replview.features.lag.figures import DRAWN, drawn, retained_wal, table_rates, transaction_sizes
from replview.features.lag.page import LagSlot
from replview.features.lag.periods import MINUTE, step_of
from replview.features.lag.series import LagSeries, SlotSeries, read_series
from replview.store.django_session import rows
from replview.store.read.seen import tables_without_size
from replview.ui.charts.figure import Chart, SlotValues

#: Number of tables with a line of their own; the others share one line.
_TABLES_LIMIT = 8

_INCARNATIONS = "SELECT id FROM slot_incarnation WHERE slot_id = %(slot)s"

_BUSIEST_SQL = """
    SELECT m.relation_id, r.schema || '.' || r."table"
    FROM (SELECT relation_id, sum({value}) AS much FROM relation_minute
          WHERE incarnation_id IN ({incarnations}) AND minute >= %(since)s AND minute < %(until)s
            AND relation_id <> ALL (%(untold)s::bigint[])
          GROUP BY relation_id ORDER BY much DESC, relation_id LIMIT {limit}) m
    JOIN relation r ON r.id = m.relation_id
    WHERE m.much > 0 ORDER BY m.much DESC, m.relation_id
"""
_BIN_SQL = "date_bin(make_interval(secs => %(step)s), minute, 'epoch'::timestamptz)"
_BY_TABLE_SQL = """
    SELECT CASE WHEN relation_id = ANY(%(tables)s) THEN relation_id ELSE 0 END AS relation,
           extract(epoch FROM {bin})::bigint / %(step)s AS bucket,
           sum({value})::float8
    FROM relation_minute
    WHERE incarnation_id IN ({incarnations}) AND minute >= %(since)s AND minute < %(until)s
      AND relation_id <> ALL (%(untold)s::bigint[])
    GROUP BY relation, {bin}
"""
_BY_SIZE_SQL = sql.SQL("""
    SELECT power, sum(transactions)::bigint FROM transaction_size_minute
    WHERE incarnation_id IN ({incarnations}) AND minute >= %(since)s AND minute < %(until)s
    GROUP BY power ORDER BY power
""").format(incarnations=sql.SQL(_INCARNATIONS))

#: Maps a caller's ``by`` to the column that is summed up.
_SUMMED_COLUMNS = {"changes": "changes", "bytes": "size_bytes"}
#: Points per line; with more than ``_FEW_SLOTS`` slots fewer points suffice, and draw faster.
_POINTS, _POINTS_OF_MANY, _FEW_SLOTS = 1000, 400, 4
_CSV_HEADING = ("time", "slot", "chart", "line", "value", "unit")


@dataclass(slots=True)
class TableRates:
    """Rates per second by table, one value per bucket; a bucket without commits is zero."""

    #: Middle of each bucket, in seconds since 1970.
    times: list[float] = field(default_factory=list)
    #: The busiest tables first; all other tables last, as ``others``.
    tables: list[tuple[str, list[float]]] = field(default_factory=list)


def read_table_rates(slot_id: int, by: str, since: dt.datetime, until: dt.datetime) -> TableRates:
    """Return the rates of changes or bytes by table.

    ``by`` is ``changes`` or ``bytes``; any other value raises ``KeyError``. Bytes of a table with
    values that the account may not see are left out, because they tell how long those are.
    """
    parts = {
        "value": sql.Identifier(_SUMMED_COLUMNS[by]),
        "incarnations": sql.SQL(_INCARNATIONS),
        "bin": sql.SQL(_BIN_SQL),
        "limit": sql.Literal(_TABLES_LIMIT),
    }
    step = step_of(until - since, MINUTE, _POINTS)
    hidden_ids = tables_without_size(reading_session()) if by == "bytes" else []
    params: dict[str, Any] = {
        "slot": slot_id, "since": since, "until": until, "step": step, "untold": hidden_ids,
    }  # fmt: skip
    names: dict[int, str] = dict(rows(sql.SQL(_BUSIEST_SQL).format(**parts), params))
    if not names:
        return TableRates()
    sums = rows(sql.SQL(_BY_TABLE_SQL).format(**parts), params | {"tables": list(names)})
    amounts = {(relation, bucket): amount for relation, bucket, amount in sums}
    first, last = int(since.timestamp() // step), int((until.timestamp() - 1e-6) // step)
    # Minutes that are not summed up yet are unknown, not zero.
    last = min(last, max(bucket for _, bucket in amounts))
    buckets = range(first, last + 1)
    if any(relation == 0 for relation, _ in amounts):
        names[0] = "others"
    rates = TableRates(times=[(bucket + 0.5) * step for bucket in buckets])
    for relation, name in names.items():
        values = [amounts.get((relation, bucket), 0.0) / step for bucket in buckets]
        rates.tables.append((name, values))
    return rates


def read_transaction_sizes(slot_id: int, since: dt.datetime, until: dt.datetime) -> dict[int, int]:
    """Return the numbers of transactions by the power of two of their changes.

    -1 stands for transactions without changes.
    """
    return dict(rows(_BY_SIZE_SQL, {"slot": slot_id, "since": since, "until": until}))


def read_charts(
    slots: Sequence[LagSlot],
    charts: Sequence[str],
    since: dt.datetime,
    until: dt.datetime,
    now: dt.datetime,
) -> tuple[LagSeries, list[Chart]]:
    """Return the charts in the requested order, and the series with their values."""
    several = len(slots) > 1
    fields = [name for key in charts for name in _chart_fields(key, several=several)]
    ids = [slot.sample_id for slot in slots]
    points = _POINTS if len(ids) <= _FEW_SLOTS else _POINTS_OF_MANY
    series = read_series(ids, list(dict.fromkeys(fields)), since, until, points, now=now)
    values = [_slot_values(slot, series) for slot in slots]
    return series, [_build_chart(key, slots, values, since, until) for key in charts]


def _chart_fields(key: str, *, several: bool) -> tuple[str, ...]:
    if key == "retained":
        return ("retained_wal_bytes",) if several else ("retained_wal_bytes", "lost")
    if key not in DRAWN:
        return ()
    extra = ("active",) if key == "lag" and not several else ()
    return DRAWN[key].fields(several=several) + extra


def _slot_values(slot: LagSlot, series: LagSeries) -> SlotValues:
    slot_series = series.slots.get(slot.sample_id, SlotSeries())
    times = [round(seconds * 1000) for seconds in slot_series.times]
    return SlotValues(name=slot.name, times=times, values=slot_series.values)


def _build_chart(
    key: str,
    slots: Sequence[LagSlot],
    values: Sequence[SlotValues],
    since: dt.datetime,
    until: dt.datetime,
) -> Chart:
    if key == "retained":
        single = slots[0] if len(slots) == 1 else None
        return retained_wal(
            values,
            limit_bytes=single.limit_bytes if single else None,
            budget_bytes=single.budget_bytes if single else None,
        )
    if key in DRAWN:
        return drawn(key, values)
    # Recorded changes are shown of one slot: the first that replview receives.
    own = next((slot.slot for slot in slots if slot.slot), None)
    if key == "sizes":
        return transaction_sizes(read_transaction_sizes(own.pk, since, until) if own else {})
    by = "bytes" if key == "table-bytes" else "changes"
    rates = read_table_rates(own.pk, by, since, until) if own else TableRates()
    times = [round(seconds * 1000) for seconds in rates.times]
    return table_rates(times, rates.tables, by=by)


def csv_rows(charts: Sequence[Chart], slots: Sequence[str]) -> Iterator[Sequence[object]]:
    """Yield a heading, then every point of every chart."""
    yield _CSV_HEADING
    for chart in charts:
        for trace in chart.figure["data"]:
            if trace["meta"].get("hatched"):
                continue
            # A chart of several slots has one line per slot.
            slot = slots[0] if len(slots) == 1 else str(trace["name"])
            for moment, value in zip(trace["x"], trace["y"], strict=False):
                time = _utc_text(moment) if chart.timed else moment
                yield time, slot, chart.title, trace["name"], value, chart.unit


def _utc_text(milliseconds: float) -> str:
    moment = dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
