"""Lag in seconds, as the walsender tells it: written, flushed, replayed by the consumer."""

from collections.abc import Sequence

from replview.ui.charts.figure import Chart, Line, chart, lines_of
from replview.ui.charts.values import SlotValues, Stretch, stretches

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
