"""The charts of the lag page, each from the values of the slots it shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replview.ui.charts.axis import axis, words_of
from replview.ui.charts.figure import (
    MARGIN,
    Chart,
    ChartLine,
    Level,
    SlotValues,
    Stretch,
    chart,
    lines_of,
    stretches,
    style_of,
)

#: A limit is drawn once so much of it is reached; before, it would press the line to the floor.
_DRAWN_FROM = 0.05
_NOT_RECEIVED = "Known only of slots that replview receives, while the receiver runs."
_NO_CHANGE = "No change was recorded in this time. Known only of a slot that replview receives."
_NO_TRANSACTION = (
    "No transaction was recorded in this time. Known only of a slot that replview receives."
)


def retained_wal(
    slots: Sequence[SlotValues],
    *,
    limit_bytes: float | None = None,
    budget_bytes: float | None = None,
) -> Chart:
    """``limit_bytes`` is max_slot_wal_keep_size, ``budget_bytes`` replview's own for its slot."""
    lines = lines_of(slots, "retained_wal_bytes", "retained", area=True)
    highest = max((v for line in lines for v in line.values if v is not None), default=0)
    levels, notes = [], []
    for name, value, words in (
        ("budget", budget_bytes, "budget {}"),
        ("limit", limit_bytes, "limit {}, the slot is lost here"),
    ):
        if value is None or len(slots) != 1:
            continue
        amount = words_of("bytes", value)
        if highest >= value * _DRAWN_FROM:
            ink = "del" if name == "limit" else "upd"
            levels.append(Level(value=value, name=name, words=words.format(amount), ink=ink))
        else:
            notes.append(f"{name} {amount}, far above")
    lost = []
    if len(slots) == 1:
        reasons = ["the slot is lost" if gone else None for gone in slots[0].of("lost")]
        lost = stretches(slots[0], reasons)
    return chart("retained", "Retained WAL", "bytes", lines, levels=levels, unknown=lost,
                 note=", ".join(notes))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart of sampled fields: of one slot some lines, of several one field of each."""

    title: str
    unit: str
    #: The field drawn of several slots (of one, too, where ``lines`` says nothing else), and what
    #: its value is called.
    field: str
    word: str
    #: Of one slot: name in the legend, word, field, ink, dash.
    lines: tuple[tuple[str, str, str, str, str], ...] = ()
    #: The title where several slots are shown; empty: the same.
    of_several: str = ""
    area: bool = False
    #: What is said where the field, or the first of the lines, is not known.
    unknown: str = ""

    def fields(self, *, several: bool) -> tuple[str, ...]:
        return (self.field,) if several or not self.lines else tuple(one[2] for one in self.lines)


#: By the word of an address.
DRAWN = {
    # Of physical slots the server tells none.
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
    # Of several slots what each one's consumer reads.
    "throughput": Drawn(
        title="Throughput", of_several="WAL read by the consumer", unit="bytes/s",
        field="wal_read", word="read",
        lines=(
            ("WAL written", "written", "wal_written", "text-2", "solid"),
            ("read by the consumer", "read", "wal_read", "accent", "dash"),
        ),
    ),
    # The middle and the slowest hundredth; by the source's clock and ours.
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
    # Bytes a second, from pg_stat_replication_slots; of several slots what each spills.
    "spill": Drawn(
        title="Decoded, spilled, streamed", of_several="Spilled to disk", unit="bytes/s",
        field="spill_bytes", word="spilled",
        lines=(
            ("decoded", "decoded", "total_bytes", "text-2", "solid"),
            ("spilled to disk", "spilled to disk", "spill_bytes", "del", "dash"),
            ("streamed", "streamed", "stream_bytes", "accent", "dot"),
        ),
        unknown="The server told no decoding counters in this time; a physical slot has none.",
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


def drawn(key: str, slots: Sequence[SlotValues]) -> Chart:
    """A chart of ``DRAWN``."""
    spec, one = DRAWN[key], slots[0] if len(slots) == 1 else None
    if one is None or not spec.lines:
        lines = lines_of(slots, spec.field, spec.word, area=spec.area)
        known = bool(spec.lines) or any(slot.knows(spec.field) for slot in slots)
    else:
        lines = [
            ChartLine(
                name=name, word=word, times=one.times, values=one.of(field), ink=ink, dash=dash
            )
            for name, word, field, ink, dash in spec.lines
        ]
        known = one.knows(spec.lines[0][2])
    title = spec.title if one is not None or not spec.of_several else spec.of_several
    note, unknown = "" if known else spec.unknown, list[Stretch]()
    if key == "lag" and one is not None:
        note, unknown = _lag_note(one), _unread(one)
    return chart(key, title, spec.unit, lines, unknown=unknown, note=note)


_LAGS = DRAWN["lag"].fields(several=False)


def _unread(slot: SlotValues) -> list[Stretch]:
    """Nobody reads the slot: there is no walsender that could tell."""
    fields = [slot.of(name) for name in _LAGS]
    reasons: list[str | None] = []
    for number, active in enumerate(slot.of("active")):
        known = any(field[number] is not None for field in fields)
        reasons.append("nobody reads the slot" if active is False and not known else None)
    return stretches(slot, reasons)


def _lag_note(slot: SlotValues) -> str:
    told = [active for active in slot.of("active") if active is not None]
    if told and told[-1] and not any(slot.knows(name) for name in _LAGS):
        return (
            "The slot is read, but the server tells no lag: a reader that is caught up has none to"
            " measure, and one that uses SQL functions is in no pg_stat_replication."
        )
    return ""


def table_rates(
    times: Sequence[float], tables: Sequence[tuple[str, Sequence[float | None]]], *, by: str
) -> Chart:
    """``by`` is ``changes`` or ``bytes``; tables come busiest first, the others last."""
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
    """``counts`` by power: 2^power to 2^(power + 1) - 1 changes; -1: none."""
    powers = list(range(min(counts), max(counts) + 1)) if counts else []
    numbers = [counts.get(power, 0) for power in powers]
    marks = axis("transactions", max(numbers, default=0))
    words = [_words(power) for power in powers]
    data: list[dict[str, Any]] = [
        {
            "type": "bar", "name": "transactions", "x": words, "y": numbers,
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


def _words(power: int) -> str:
    if power < 0:
        return "none"
    low, high = 1 << power, (1 << power + 1) - 1
    return f"{low}" if low == high else f"{_short(low)}–{_short(high)}"


def _short(number: int) -> str:
    for size, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if number >= size:
            return f"{number / size:.0f}{letter}"
    return str(number)
