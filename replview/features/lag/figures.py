"""The charts of the lag page, each from the values of the slots it shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from replview.ui.charts.figure import (
    MARGIN,
    Chart,
    Level,
    Line,
    SlotValues,
    Stretch,
    axis,
    chart,
    lines_of,
    stretches,
    style_of,
    words_of,
)

#: A limit is drawn once so much of it is reached; before, it would press the line to the floor.
_DRAWN_FROM = 0.05


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


def unconfirmed_wal(slots: Sequence[SlotValues]) -> Chart:
    """Of physical slots the server tells none."""
    lines = lines_of(slots, "unconfirmed_wal_bytes", "unconfirmed", area=True)
    return chart("unconfirmed", "Unconfirmed WAL", "bytes", lines)


_KINDS = (("write", "dot", "text-2"), ("flush", "dash", "accent"), ("replay", "solid", "text-2"))


def lag_seconds(slots: Sequence[SlotValues]) -> Chart:
    """Three lines of one slot; of several slots the replay lag of each."""
    if len(slots) != 1:
        lines = lines_of(slots, "replay_lag_seconds", "replay")
        return chart("lag", "Replay lag", "seconds", lines)
    slot = slots[0]
    lines = [
        Line(name=kind, word=kind, times=slot.times, values=slot.of(f"{kind}_lag_seconds"),
             ink=ink, dash=dash)
        for kind, dash, ink in _KINDS
    ]  # fmt: skip
    return chart("lag", "Lag, seconds", "seconds", lines, unknown=_unknown(slot), note=_note(slot))


def _unknown(slot: SlotValues) -> list[Stretch]:
    """Nobody reads the slot: there is no walsender that could tell."""
    fields = [slot.of(f"{kind}_lag_seconds") for kind, _, _ in _KINDS]
    reasons: list[str | None] = []
    for number, active in enumerate(slot.of("active")):
        known = any(field[number] is not None for field in fields)
        reasons.append("nobody reads the slot" if active is False and not known else None)
    return stretches(slot, reasons)


def _note(slot: SlotValues) -> str:
    if any(slot.knows(f"{kind}_lag_seconds") for kind, _, _ in _KINDS):
        return ""
    if True in slot.of("active"):
        return (
            "The slot is read, but the server tells no lag: a reader that is caught up has none to"
            " measure, and one that uses SQL functions is in no pg_stat_replication."
        )
    return ""


def throughput(slots: Sequence[SlotValues]) -> Chart:
    """Both paces of one slot; of several slots what each one's consumer reads."""
    if len(slots) != 1:
        lines = lines_of(slots, "wal_read", "read")
        return chart("throughput", "WAL read by the consumer", "bytes/s", lines)
    slot = slots[0]
    lines = [
        Line(name="WAL written", word="written", times=slot.times, values=slot.of("wal_written"),
             ink="text-2"),
        Line(name="read by the consumer", word="read", times=slot.times,
             values=slot.of("wal_read"), dash="dash"),
    ]  # fmt: skip
    return chart("throughput", "Throughput", "bytes/s", lines)


_NOT_OURS = "Known only of slots that replview receives."


def stored_after(slots: Sequence[SlotValues]) -> Chart:
    """The middle and the slowest hundredth; by the source's clock and ours."""
    if len(slots) != 1:
        lines = lines_of(slots, "stored_after_p99_seconds", "p99")
        return chart("stored", "Commit to stored, p99", "seconds", lines)
    slot = slots[0]
    lines = [
        Line(name=name, word=name, times=slot.times, values=slot.of(f"stored_after_{name}_seconds"),
             ink=ink, dash=dash)
        for name, ink, dash in (("p50", "accent", "solid"), ("p99", "text-2", "dash"))
    ]  # fmt: skip
    known = slot.knows("stored_after_p50_seconds")
    note = "" if known else f"No transaction was stored in this time. {_NOT_OURS}"
    return chart("stored", "Commit to stored", "seconds", lines, note=note)


_NO_CHANGE = "No change was recorded in this time. Known only of a slot that replview receives."


def table_rates(
    times: Sequence[float], tables: Sequence[tuple[str, Sequence[float | None]]], *, by: str
) -> Chart:
    """``by`` is ``changes`` or ``bytes``; tables come busiest first, the others last."""
    lines = []
    for number, (name, values) in enumerate(tables):
        ink, dash = style_of(number)
        lines.append(
            Line(name=name, word=name, times=times, values=values, stacked=True, area=True,
                 ink=ink, dash=dash)
        )  # fmt: skip
    title = "Changes by table" if by == "changes" else "Bytes by table"
    key = "tables" if by == "changes" else "table-bytes"
    unit = "changes/s" if by == "changes" else "bytes/s"
    return chart(key, title, unit, lines, note="" if lines else _NO_CHANGE)


_NO_TRANSACTION = (
    "No transaction was recorded in this time. Known only of a slot that replview receives."
)


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


_NAMES = (
    ("decoded", "total_bytes", "text-2", "solid"),
    ("spilled to disk", "spill_bytes", "del", "dash"),
    ("streamed", "stream_bytes", "accent", "dot"),
)


def spill_stream(slots: Sequence[SlotValues]) -> Chart:
    """Bytes a second, from pg_stat_replication_slots; of several slots what each spills."""
    if len(slots) != 1:
        lines = lines_of(slots, "spill_bytes", "spilled")
        return chart("spill", "Spilled to disk", "bytes/s", lines)
    slot = slots[0]
    lines = [
        Line(name=name, word=name, times=slot.times, values=slot.of(field), ink=ink, dash=dash)
        for name, field, ink, dash in _NAMES
    ]
    note = (
        ""
        if slot.knows("total_bytes")
        else "The server told no decoding counters in this time; a physical slot has none."
    )
    return chart("spill", "Decoded, spilled, streamed", "bytes/s", lines, note=note)


_NOT_RECEIVED = "Known only of slots that replview receives, while the receiver runs."


def batch_size(slots: Sequence[SlotValues]) -> Chart:
    """Changes in the last store transaction before each sample."""
    lines = lines_of(slots, "batch_changes", "changes at once")
    known = any(slot.knows("batch_changes") for slot in slots)
    note = "" if known else _NOT_RECEIVED
    return chart("batch", "Receiver: batch size", "changes", lines, note=note)


def memory(slots: Sequence[SlotValues]) -> Chart:
    """Resident memory of the process that receives the slot."""
    lines = lines_of(slots, "memory_bytes", "held", area=True)
    known = any(slot.knows("memory_bytes") for slot in slots)
    return chart("memory", "Receiver: memory", "bytes", lines, note="" if known else _NOT_RECEIVED)
