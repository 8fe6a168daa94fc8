"""What the page says first: what the row is, how often it changed, by whom, what is missing."""

import datetime as dt
from dataclasses import dataclass, field

from replview.features.rows.start import Start
from replview.features.rows.text import obvious_state
from replview.store.read.coverage import Coverage, Gap
from replview.store.read.row_history.as_of import RowState
from replview.store.read.row_history.history import RowHistory
from replview.store.read.row_history.replay import Entry
from replview.text.formats import age_words, plural


@dataclass(slots=True)
class Sentence:
    """The parts between which the template sets times."""

    level: str
    title: str
    #: ``6 changes by 4 actors and 1 unknown``; empty where there is none.
    changes: str = ""
    since: dt.datetime | None = None
    last: Entry | None = None
    #: Inside coverage, without any change: from when to when that is known.
    no_change: bool = False
    until: dt.datetime | None = None
    why: str = ""
    gaps: str = ""
    more: list[str] = field(default_factory=list)


def sentence_of(start: Start, history: RowHistory, now: RowState, coverage: Coverage) -> Sentence:
    """The sentence of a row's page."""
    level, what = _state_words(start, now)
    sentence = Sentence(level, f"{start.short_name} {what}")
    entries = history.entries
    holes = [gap for gap in coverage.gaps if gap.kind == "gap"]
    sentence.gaps = _gap_words(holes)
    if entries:
        sentence.changes = _change_words(history)
        sentence.since, sentence.last = entries[-1].step.commit_time, entries[0]
    elif history.older is None and history.searched_back_to is None:
        sentence.no_change = coverage.says_no_change()
        sentence.since, sentence.until = coverage.vouched_since, coverage.end
        sentence.why = "" if sentence.no_change else _why_not(coverage)
    return sentence


def _state_words(start: Start, now: RowState) -> tuple[str, str]:
    if now.exists:
        told = obvious_state(now.version, now.values)
        return "ok", f"is {told}." if told else "exists."
    if now.exists is False:
        return "idle", "is truncated." if now.why == "truncated" else "is deleted."
    if now.why in ("gap", "left out", "unpublished", "table"):
        return "look", "is unknown now."
    return "idle", "has no recorded change."


def _change_words(history: RowHistory) -> str:
    entries = history.entries
    number = plural(len(entries), "change")
    named = {entry.step.actor for entry in entries if entry.step.actor}
    unknown = sum(not entry.step.actor for entry in entries)
    who = []
    if named:
        who.append(plural(len(named), "actor"))
    if unknown:
        who.append(f"{unknown} unknown" if named else "unknown actors")
    shown = number if history.complete else f"{number} on this page"
    return f"{shown} by {' and '.join(who)}"


def _gap_words(holes: list[Gap]) -> str:
    if not holes:
        return ""
    if len(holes) > 1:
        return f"{len(holes)} gaps."
    gap = holes[0]
    if gap.from_time is None:
        return "One gap."
    return f"One gap of {age_words(gap.to_time - gap.from_time)}."


def _why_not(coverage: Coverage) -> str:
    """Why "no change" cannot be said."""
    if coverage.origin_filtered:
        return "Changes that were replicated into the source are not received."
    if coverage.table is not None and coverage.table.published is False:
        return "The table is not published."
    if coverage.table is not None and coverage.table.published is None:
        return "Whether the table was published all the while is unknown."
    return "Whether there was none is unknown: the record does not cover it."
