"""The steps of each kind of onboarding: their order, their state, and which can be opened."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from replview.access.rights import account_of
from replview.catalog.problems import SourceProblem
from replview.jobs import drafts
from replview.store.dsn import place_of
from replview.store.models import SourceDraft
from replview.ui.managed import EXPECTED
from replview.ui.sentence import PLACES

Kind = SourceDraft.Kind
_STEPS_OF_KIND = {
    Kind.WATCH: ("connection", "check", "tables", "columns", "review"),
    Kind.MONITOR: ("connection", "check", "review"),
    Kind.RECORD: ("connection", "check", "tables", "columns", "options", "review"),
}
DraftView = Callable[[HttpRequest, SourceDraft], HttpResponse]


@dataclass(frozen=True, slots=True)
class KindWords:
    """The texts of a kind of onboarding."""

    title: str
    icon: str
    #: The objects that remain on the source.
    leaves: str
    #: Label of the last button.
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
    #: Address of the step; empty while it cannot be opened.
    url: str


def names_of(draft: SourceDraft) -> tuple[str, ...]:
    """Return the steps of a draft; a source that was added already needs no connection."""
    names = _STEPS_OF_KIND[Kind(draft.kind)]
    return names[1:] if draft.source_id else names


def is_answered(draft: SourceDraft, name: str) -> bool:
    """Return whether the draft has an answer to the step."""
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
    """Return the first step without an answer."""
    return next(name for name in names_of(draft) if not is_answered(draft, name))


def may_see(draft: SourceDraft, name: str) -> bool:
    """Return whether the step belongs to the draft and all earlier steps are answered."""
    names = names_of(draft)
    return name in names and names.index(name) <= names.index(next_open(draft))


def step_url(draft: SourceDraft, name: str) -> str:
    """Return the address of a step."""
    return reverse(f"draft-{name}", args=[draft.pk])


def after(draft: SourceDraft, name: str) -> str:
    """Return the address of the following step; the last step is followed by itself."""
    names = names_of(draft)
    return step_url(draft, names[min(names.index(name) + 1, len(names) - 1)])


def before(draft: SourceDraft, name: str) -> str:
    """Return the address of the preceding step; for the first, that of the start page."""
    position = names_of(draft).index(name)
    return step_url(draft, names_of(draft)[position - 1]) if position else reverse("source-new")


def links(kind: str, current: str, draft: SourceDraft | None = None) -> list[StepLink]:
    """Return the row of steps at the top of a page."""
    names = _STEPS_OF_KIND[Kind(kind)] if draft is None else names_of(draft)
    step_links = []
    for number, name in enumerate(names, 1):
        done = draft is not None and is_answered(draft, name)
        state = "current" if name == current else "done" if done else "later"
        url = step_url(draft, name) if draft is not None and may_see(draft, name) else ""
        step_links.append(StepLink(number, name, name.title(), state, url))
    return step_links


def at_step(name: str) -> Callable[[DraftView], Callable[[HttpRequest, int], HttpResponse]]:
    """Decorate the view of one step of the user's own draft.

    A draft that expired, that is being carried out, or that has not reached the step is redirected
    to its current page. If the source cannot be read, the page shows the problem.
    """

    def decorate(view: DraftView) -> Callable[[HttpRequest, int], HttpResponse]:
        @wraps(view)
        def guarded(request: HttpRequest, draft_id: int) -> HttpResponse:
            draft = drafts.find(account_of(request), draft_id)
            if draft is None:
                return gone()
            if draft.state not in drafts.CHANGEABLE:
                return redirect("draft-progress", draft.pk)
            if not may_see(draft, name):
                return redirect(step_url(draft, next_open(draft)))
            try:
                return view(request, draft)
            except EXPECTED as error:
                frame = frame_of(draft.kind, name, draft)
                page = UnreadablePage(frame=frame, trouble=trouble_of(error))
                return render(request, "onboarding/unreadable.html", {"page": page}, status=502)

        return guarded

    return decorate


def trouble_of(error: Exception) -> SourceProblem:
    """Return the problem to show for one of the ``EXPECTED`` exceptions."""
    if isinstance(error, SourceProblem):
        return error.with_places(PLACES)
    return SourceProblem("bad_dsn", str(error), "Enter the address again")


def gone() -> HttpResponse:
    """Redirect to the start page, with the notice that the draft no longer exists."""
    return redirect(f"{reverse('source-new')}?expired")


def go_on(draft: SourceDraft, name: str, **answers: Any) -> HttpResponse:
    """Store the answers of a step and redirect to the next one."""
    if not drafts.keep(draft, **answers):
        return redirect("draft-progress", draft.pk)
    return redirect(after(draft, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The frame of each step's page: the row of steps, the way back, and the source."""

    kind: str
    words: KindWords
    #: None before an address was entered.
    draft: SourceDraft | None
    steps: tuple[StepLink, ...]
    #: Address of the preceding step.
    back: str
    #: Name that the source will get; empty while unknown.
    name: str = ""
    #: The source's server and database, without secrets.
    place: str = ""


def frame_of(kind: str, name: str, draft: SourceDraft | None = None) -> Frame:
    """Return the frame around the step ``name``."""
    words, step_links = KINDS[Kind(kind)], tuple(links(kind, name, draft))
    start = reverse("source-new")
    if draft is None:
        return Frame(kind=kind, words=words, draft=None, steps=step_links, back=start)
    return Frame(
        kind=kind,
        words=words,
        draft=draft,
        steps=step_links,
        back=before(draft, name) if name in names_of(draft) else start,
        name=draft.answers.get("name", ""),
        place=place_of(draft.source.conninfo if draft.source else draft.conninfo),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePage:
    """The page of a step whose source cannot be read."""

    frame: Frame
    trouble: SourceProblem
