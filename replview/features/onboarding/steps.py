"""The steps of each way to begin: which there are, how far a draft is, where it goes on."""

from dataclasses import dataclass

from django.urls import reverse

from replview.store.models import SourceDraft

Kind = SourceDraft.Kind
_WORDS = {
    "connection": "Connection",
    "check": "Check",
    "tables": "Tables",
    "columns": "Columns",
    "options": "Options",
    "review": "Review",
}
_OF_KIND = {
    Kind.WATCH: ("connection", "check", "tables", "columns", "review"),
    Kind.MONITOR: ("connection", "check", "review"),
    Kind.RECORD: ("connection", "check", "tables", "columns", "options", "review"),
}


@dataclass(frozen=True, slots=True)
class KindWords:
    """A way to begin, in words."""

    title: str
    icon: str
    #: What is on the source when all is done.
    leaves: str
    #: The last button.
    act: str


KINDS = {
    Kind.WATCH: KindWords("Watch safely", "eye", "nothing", "Start watching"),
    Kind.MONITOR: KindWords("Monitor only", "gauge", "nothing", "Add the source"),
    Kind.RECORD: KindWords("Record history", "record", "a publication and a slot", "Create"),
}


@dataclass(frozen=True, slots=True)
class StepLink:
    """A step in the row of steps."""

    number: int
    name: str
    word: str
    #: ``done``, ``current`` or ``later``.
    state: str
    #: Empty where it cannot be gone to yet.
    url: str


def names_of(draft: SourceDraft) -> tuple[str, ...]:
    """The steps of a draft; a source that is known needs no connection."""
    names = _OF_KIND[Kind(draft.kind)]
    return names[1:] if draft.source_id else names


def is_answered(draft: SourceDraft, name: str) -> bool:
    """Whether a step needs nothing any more."""
    answers = draft.answers
    match name:
        case "connection":
            return bool(draft.conninfo or draft.source_id)
        case "check":
            return bool(answers.get("check")) and not answers["check"].get("blocked")
        case "tables":
            return "through" in answers
        case "columns" | "options":
            return name in answers
    return False


def next_open(draft: SourceDraft) -> str:
    """The first step that is not answered."""
    return next(name for name in names_of(draft) if not is_answered(draft, name))


def may_see(draft: SourceDraft, name: str) -> bool:
    """Whether all steps before it are answered."""
    names = names_of(draft)
    return name in names and names.index(name) <= names.index(next_open(draft))


def step_url(draft: SourceDraft, name: str) -> str:
    """The address of a step."""
    return reverse(f"draft-{name}", args=[draft.pk])


def after(draft: SourceDraft, name: str) -> str:
    """The address of the step after it."""
    names = names_of(draft)
    return step_url(draft, names[min(names.index(name) + 1, len(names) - 1)])


def before(draft: SourceDraft, name: str) -> str:
    """The address of the step before it; that of all ways to begin before the first."""
    place = names_of(draft).index(name)
    return step_url(draft, names_of(draft)[place - 1]) if place else reverse("source-new")


def links(kind: str, current: str, draft: SourceDraft | None = None) -> list[StepLink]:
    """The row of steps over a page."""
    names = _OF_KIND[Kind(kind)] if draft is None else names_of(draft)
    found = []
    for number, name in enumerate(names, 1):
        reached = draft is not None and may_see(draft, name)
        done = draft is not None and is_answered(draft, name)
        state = "current" if name == current else "done" if done else "later"
        url = step_url(draft, name) if draft is not None and reached else ""
        found.append(StepLink(number, name, _WORDS[name], state, url))
    return found
