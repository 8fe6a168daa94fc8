"""Acts of erasing as pages tell them: what one would touch, how far it is, what was erased."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.features.erasure import queue as erasing
from replview.store.models import Erasure
from replview.text.formats import count_words, plural
from replview.ui.sentence import Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class RootView:
    """A folder or URL with what was found there, or done."""

    root: str
    what: str
    words: str
    level: str
    #: It waits for this one, and somebody may end that.
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureView:
    """One act."""

    row: Erasure
    sentence: Sentence
    figures: list[dict[str, Any]]
    tables: list[tuple[str, str]] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    roots: list[RootView] = field(default_factory=list)
    days_words: str = ""
    #: Other slots that recorded the same tables.
    others: list[str] = field(default_factory=list)
    #: What is typed to confirm; empty: it is not to be confirmed.
    word: str = ""


def erasure_view(row: Erasure) -> ErasureView:
    """As of now."""
    counts: Mapping[str, Any] = row.erased or row.found
    days = list(counts.get("days") or [])
    looked = row.state == Erasure.State.LOOKED
    return ErasureView(
        row=row,
        sentence=_sentence(row),
        figures=_figures(row, counts),
        tables=[(name, count_words(n)) for name, n in (counts.get("tables") or {}).items()],
        beside=[(name, count_words(n)) for name, n in (counts.get("beside") or {}).items()],
        roots=[_root(row, one) for one in row.roots],
        days_words=f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days),
        others=erasing.others_recording(row.slot, row.tables) if looked and row.slot else [],
        word=erasing.word_of(row) if looked else "",
    )


def list_sentence(rows: int, unfinished: int) -> Sentence:
    """Of the page of all acts."""
    if unfinished:
        return Sentence(
            level="look",
            title=f"{plural(unfinished, 'erasure')} not finished:",
            cause="something of it could not be reached.",
            next="see what, and mend it or leave it out.",
        )
    if rows:
        title = f"{plural(rows, 'erasure')}, each to its end:"
        cause = "what was erased, by whom and why stays recorded, never whose rows they were."
        return Sentence(level="ok", title=title, cause=cause)
    return Sentence(
        level="idle",
        title="Nobody was erased yet.",
        cause="Erasing takes every value of given rows out of the record, the archive and exports; "
        "that the rows changed stays.",
        next="name a slot and the rows.",
    )


def _sentence(row: Erasure) -> Sentence:
    by = row.confirmed_by or row.requested_by
    changes = plural(int((row.erased or row.found).get("changes") or 0), "change")
    match row.state:
        case Erasure.State.LOOKING:
            step = f"{row.step}." if row.step else "waiting for a worker."
            return Sentence(level="unknown", title="Looking what it would touch:", cause=step)
        case Erasure.State.LOOKED:
            return Sentence(
                level="look",
                title=f"This would erase {changes} for good.",
                cause="Nothing is erased yet.",
                next="read what it touches, then confirm.",
            )
        case Erasure.State.WAITING | Erasure.State.RUNNING:
            step = f"{row.step}." if row.step else "waiting for a worker."
            return Sentence(level="ok", title="Erasing:", cause=step)
        case Erasure.State.UNFINISHED:
            remedy = row.problem_remedy or "it is tried again by itself"
            return Sentence(
                level="now",
                title="Not finished:",
                cause=f"{row.problem_cause}.",
                next=f"{remedy[:1].lower()}{remedy[1:]}.",
            )
        case Erasure.State.DONE:
            title = f"Erased: {changes}."
            return Sentence(level="ok", title=title, cause=f"By {by}; the keys are forgotten.")
        case _:
            cause = f"{row.problem_cause or 'nobody confirmed it'}."
            return Sentence(level="idle", title="Nothing was erased:", cause=cause)


def _figures(row: Erasure, counts: Mapping[str, Any]) -> list[dict[str, Any]]:
    def number(name: str) -> str | None:
        return count_words(int(counts[name])) if name in counts else None

    days = counts.get("days")
    files = [one.get("files") for one in row.roots]
    known = [int(n) for n in files if n is not None]
    return [
        {"label": "Changes", "number": number("changes"), "main": True},
        {"label": "Transactions", "number": number("transactions")},
        {"label": "Days", "number": None if days is None else count_words(len(days))},
        {
            "label": "Files",
            "number": count_words(sum(known)) if known or (counts and not files) else None,
            "rest": "" if len(known) == len(files) else "of those reached",
        },
        {"label": "Keys named", "number": count_words(row.keys)},
    ]


def _root(row: Erasure, state: Mapping[str, Any]) -> RootView:
    left, problem = state.get("left_out_by"), state.get("problem")
    waits = row.state == Erasure.State.UNFINISHED and not state.get("done") and not left
    if left:
        words, level = f"left out by {left}: it still holds what it held", "look"
    elif problem:
        remedy = str(state.get("remedy") or "")
        words, level = f"not reached: {problem}" + (f"; {remedy}" if remedy else ""), "now"
    elif state.get("files") is None:
        words, level = "not looked at yet", "unknown"
    else:
        files, rows = int(state["files"]), int(state.get("rows") or 0)
        what = f"{plural(files, 'file')} with {plural(rows, 'change')}" if files else "nothing"
        words, level = what + (" written anew" if state.get("done") and files else ""), "ok"
    return RootView(
        root=str(state["root"]), what=str(state["what"]), words=words, level=level, waits=waits
    )
