"""From step to step: whose draft it is, whether a step may be seen yet, what all pages show."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from replview.features.onboarding import steps
from replview.jobs import drafts
from replview.store.address_parts import place_of
from replview.store.models import SourceDraft

View = Callable[[HttpRequest, SourceDraft], HttpResponse]


def at_step(name: str) -> Callable[[View], Callable[[HttpRequest, int], HttpResponse]]:
    """A view of one step of the user's own draft.

    A draft that expired, is carried out already, or is not that far leads to where it is.
    """

    def decorate(view: View) -> Callable[[HttpRequest, int], HttpResponse]:
        @wraps(view)
        def seen(request: HttpRequest, draft_id: int) -> HttpResponse:
            draft = drafts.find(request.user, draft_id)
            if draft is None:
                return gone()
            if draft.state not in drafts.CHANGEABLE:
                return redirect("draft-progress", draft.pk)
            if not steps.may_see(draft, name):
                return redirect(steps.step_url(draft, steps.next_open(draft)))
            return view(request, draft)

        return seen

    return decorate


def gone() -> HttpResponse:
    """There is no such draft (any more)."""
    return redirect(f"{reverse('source-new')}?expired")


def go_on(draft: SourceDraft, name: str, **answers: Any) -> HttpResponse:
    """Keep a step's answers and go to the next."""
    if not drafts.keep(draft, **answers):
        return redirect("draft-progress", draft.pk)
    return redirect(steps.after(draft, name))


def page_of(kind: str, name: str, draft: SourceDraft | None = None) -> dict[str, Any]:
    """What the page of every step shows."""
    words = steps.KINDS[SourceDraft.Kind(kind)]
    page = {
        "kind": kind,
        "words": words,
        "draft": draft,
        "steps": steps.links(kind, name, draft),
        "back": reverse("source-new"),
    }
    if draft is not None:
        address = draft.source.conninfo if draft.source else draft.conninfo
        page |= {
            "name": draft.answers.get("name", ""),
            "place": place_of(address),
            "back": steps.before(draft, name) if name in steps.names_of(draft) else page["back"],
        }
    return page
