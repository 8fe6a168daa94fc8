"""Build each chart of the lag page from the values of its slots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replview.ui.charts.axis import axis, words_of
from replview.ui.charts.figure import (
    MARGIN,
    Chart,
    ChartLine,
    HatchedRange,
    LimitLine,
    SlotValues,
    chart,
    lines_of,
    stretches,
    style_of,
)

#: Share of a limit above which it is drawn; otherwise it would flatten the line of the values.
_LIMIT_DRAWN_FROM = 0.05
_NOT_RECEIVED = "Known only for slots that replview receives, while the receiver runs."
_NO_CHANGE = "No change was recorded in this time. Known only for a slot that replview receives."
_NO_TRANSACTION = (
    "No transaction was recorded in this time. Known only for a slot that replview receives."
)


def retained_wal(
    slots: Sequence[SlotValues],
    *,
    limit_bytes: float | None = None,
    budget_bytes: float | None = None,
) -> Chart:
    """Build the chart of retained WAL.

    ``limit_bytes`` is max_slot_wal_keep_size; ``budget_bytes`` is replview's limit for its slot.
    """
    lines = lines_of(slots, "retained_wal_bytes", "retained", area=True)
    highest = max((v for line in lines for v in line.values if v is not None), default=0)
    levels, notes = [], []
    for name, value, label_format in (
        ("budget", budget_bytes, "budget {}"),
        ("limit", limit_bytes, "limit {}, the slot is lost here"),
    ):
        if value is None or len(slots) != 1:
            continue
        amount = words_of("bytes", value)
        if highest >= value * _LIMIT_DRAWN_FROM:
            ink = "del" if name == "limit" else "upd"
            levels.append(
                LimitLine(value=value, name=name, words=label_format.format(amount), ink=ink)
            )
        else:
            notes.append(f"{name} {amount}, far above")
    lost_ranges = []
    if len(slots) == 1:
        reasons = ["the slot is lost" if is_lost else None for is_lost in slots[0].of("lost")]
        lost_ranges = stretches(slots[0], reasons)
    return chart("retained", "Retained WAL", "bytes", lines, levels=levels, unknown=lost_ranges,
                 note=", ".join(notes))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart of sampled fields: several lines for one slot, or one field of several slots."""

    title: str
    unit: str
    #: The field that is drawn for several slots, and for one slot if ``lines`` is empty.
    field: str
    #: The name of the field's value.
    word: str
    #: Lines for one slot: (name in the legend, word, field, ink, dash).
    lines: tuple[tuple[str, str, str, str, str], ...] = ()
    #: The title for several slots; empty if it is the same.
    of_several: str = ""
    area: bool = False
    #: The note if the field, or the first line, has no known value.
    unknown: str = ""

    def fields(self, *, several: bool) -> tuple[str, ...]:
        """Return the fields that the chart needs."""
        return (self.field,) if several or not self.lines else tuple(line[2] for line in self.lines)


#: Charts by their word in the page's address.
DRAWN = {
    # Unknown for physical slots, which have no confirmed_flush_lsn.
    "unconfirmed": Drawn(
        title="Unconfirmed WAL", unit="bytes", field="unconfirmed_wal_bytes", word="unconfirmed",
        area=True,
    ),
    "lag": Drawn(
        title="Lag, seconds", of_several="Replay lag", unit="seconds",
        field="replay_lag_seconds", word="replay",
        lines=(
            ("write", "write", "write_lag_seconds", "text-2", "dot"),
            ("flush", "flush", "flush_lag_seconds", "accent", "dash"),
            ("replay", "replay", "replay_lag_seconds", "text-2", "solid"),
        ),
    ),
    # For several slots, only the WAL that each consumer reads.
    "throughput": Drawn(
        title="Throughput", of_several="WAL read by the consumer", unit="bytes/s",
        field="wal_read", word="read",
        lines=(
            ("WAL written", "written", "wal_written", "text-2", "solid"),
            ("read by the consumer", "read", "wal_read", "accent", "dash"),
        ),
    ),
    # Transactions that the receiver stored, per second.
    "commits": Drawn(
        title="Commits", unit="commits/s", field="transactions_stored", word="commits", area=True,
        unknown="No transaction was stored in this time. Known only of slots that replview "
        "receives.",
    ),
    # Median and 99th percentile; the commit is by the source's clock, the storing by ours.
    "stored": Drawn(
        title="Commit to stored", of_several="Commit to stored, p99", unit="seconds",
        field="stored_after_p99_seconds", word="p99",
        lines=(
            ("p50", "p50", "stored_after_p50_seconds", "accent", "solid"),
            ("p99", "p99", "stored_after_p99_seconds", "text-2", "dash"),
        ),
        unknown="No transaction was stored in this time. Known only of slots that replview "
        "receives.",
    ),
    # Bytes per second from pg_stat_replication_slots; for several slots, only spilled bytes.
    "spill": Drawn(
        title="Decoded, spilled, streamed", of_several="Spilled to disk", unit="bytes/s",
        field="spill_bytes", word="spilled",
        lines=(
            ("decoded", "decoded", "total_bytes", "text-2", "solid"),
            ("spilled to disk", "spilled to disk", "spill_bytes", "del", "dash"),
            ("streamed", "streamed", "stream_bytes", "accent", "dot"),
        ),
        unknown="The server reported no decoding counters in this time; a physical slot has none.",
    ),
    # Changes in the last store transaction before each sample.
    "batch": Drawn(
        title="Receiver: batch size", unit="changes", field="batch_changes",
        word="changes at once", unknown=_NOT_RECEIVED,
    ),
    # Resident memory of the process that receives the slot.
    "memory": Drawn(
        title="Receiver: memory", unit="bytes", field="memory_bytes", word="held", area=True,
        unknown=_NOT_RECEIVED,
    ),
}  # fmt: skip
_LAG_FIELDS = DRAWN["lag"].fields(several=False)


def drawn(key: str, slots: Sequence[SlotValues]) -> Chart:
    """Build a chart of ``DRAWN``."""
    spec, single = DRAWN[key], slots[0] if len(slots) == 1 else None
    if single is None or not spec.lines:
        lines = lines_of(slots, spec.field, spec.word, area=spec.area)
        has_values = bool(spec.lines) or any(slot.knows(spec.field) for slot in slots)
    else:
        lines = [
            ChartLine(
                name=name,
                word=word,
                times=single.times,
                values=single.of(field),
                ink=ink,
                dash=dash,
            )
            for name, word, field, ink, dash in spec.lines
        ]
        has_values = single.knows(spec.lines[0][2])
    title = spec.title if single is not None or not spec.of_several else spec.of_several
    note, unknown = "" if has_values else spec.unknown, list[HatchedRange]()
    if key == "lag" and single is not None:
        note, unknown = _lag_note(single), _unread_ranges(single)
    return chart(key, title, spec.unit, lines, unknown=unknown, note=note)


def _unread_ranges(slot: SlotValues) -> list[HatchedRange]:
    """Return the stretches in which the slot has no consumer, so that there is no walsender."""
    fields = [slot.of(name) for name in _LAG_FIELDS]
    reasons: list[str | None] = []
    for number, active in enumerate(slot.of("active")):
        has_lag = any(field[number] is not None for field in fields)
        reasons.append("the slot has no consumer" if active is False and not has_lag else None)
    return stretches(slot, reasons)


def _lag_note(slot: SlotValues) -> str:
    activity = [active for active in slot.of("active") if active is not None]
    if activity and activity[-1] and not any(slot.knows(name) for name in _LAG_FIELDS):
        return (
            "The slot is read, but the server reports no lag: it measures none while the reader is "
            "idle and caught up, and lists no reader that uses SQL functions in "
            "pg_stat_replication."
        )
    return ""


def table_rates(
    times: Sequence[float], tables: Sequence[tuple[str, Sequence[float | None]]], *, by: str
) -> Chart:
    """Build the stacked chart of rates by table, with the busiest first.

    ``by`` is ``changes`` or ``bytes``.
    """
    lines = []
    for number, (name, values) in enumerate(tables):
        ink, dash = style_of(number)
        lines.append(
            ChartLine(name=name, word=name, times=times, values=values, stacked=True, area=True,
                 ink=ink, dash=dash)
        )  # fmt: skip
    title = "Changes by table" if by == "changes" else "Bytes by table"
    key = "tables" if by == "changes" else "table-bytes"
    unit = "changes/s" if by == "changes" else "bytes/s"
    return chart(key, title, unit, lines, note="" if lines else _NO_CHANGE)


def transaction_sizes(counts: Mapping[int, int]) -> Chart:
    """Build the histogram of transaction sizes.

    ``counts`` is by power: 2^power to 2^(power + 1) - 1 changes; -1 stands for no changes.
    """
    powers = list(range(min(counts), max(counts) + 1)) if counts else []
    numbers = [counts.get(power, 0) for power in powers]
    marks = axis("transactions", max(numbers, default=0))
    labels = [_size_label(power) for power in powers]
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "name": "transactions", "x": labels, "y": numbers,
            "meta": {"ink": "accent", "unit": "transactions", "word": "transactions"},
        }
    ]  # fmt: skip
    layout: dict[str, Any] = {
        "margin": MARGIN | {"b": 26},
        "showlegend": False,
        "hovermode": False,
        "dragmode": False,
        "bargap": 0.25,
        "xaxis": {"type": "category", "fixedrange": True},
        "yaxis": {
            "range": [0, marks.top], "fixedrange": True, "tickmode": "array", "zeroline": False,
            "tickvals": marks.values, "ticktext": marks.words,
        },
        "shapes": [],
        "annotations": [],
    }  # fmt: skip
    return Chart(
        key="sizes",
        title="Transactions by size",
        unit="transactions",
        figure={"data": data, "layout": layout},
        legend=[{"name": "changes in a transaction", "ink": "accent", "dash": "bar"}],
        note="" if counts else _NO_TRANSACTION,
        timed=False,
    )


def _size_label(power: int) -> str:
    if power < 0:
        return "none"
    low, high = 1 << power, (1 << power + 1) - 1
    return f"{low}" if low == high else f"{_short_number(low)}–{_short_number(high)}"


def _short_number(number: int) -> str:
    for size, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if number >= size:
            return f"{number / size:.0f}{letter}"
    return str(number)
