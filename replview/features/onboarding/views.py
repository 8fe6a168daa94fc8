"""Views that start onboarding, read the address, show the progress, and cancel."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from replview.access.guard import require
from replview.access.page import ADMIN, GET, OF_SOURCE, OPERATOR, POST, READ_POST, page
from replview.access.rights import Role, account_of
from replview.catalog.doctor_checks import problem
from replview.features.onboarding import checking, steps
from replview.features.onboarding.address_form import AddressForm, connect_draft, known_as
from replview.features.onboarding.pages import (
    Begun,
    ConnectionPage,
    DoctorPage,
    KnownPage,
    StartPage,
    progress_page,
)
from replview.features.onboarding.steps import frame_of, gone
from replview.jobs import drafts
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Source, SourceDraft

Kind, State = SourceDraft.Kind, SourceDraft.State


@page(GET, role=OPERATOR, nav="sources", of=OF_SOURCE)
def doctor(request: HttpRequest, source_name: str) -> HttpResponse:
    """Check the source again, and show each finding with the SQL that fixes it."""
    source = get_object_or_404(Source, name=source_name)
    require(request, Role.OPERATOR, source)
    try:
        checked = checking.check(full_conninfo(source))
    except UNUSABLE as error:
        finding = problem("bad_dsn", str(error), "Correct the source's address")
        checked = checking.Checked([checking.view_of(finding)], blocked=True)
    page = DoctorPage(source=source, checked=checked, checked_at=timezone.now())
    return render(request, "onboarding/doctor.html", {"page": page})


@page(GET, role=ADMIN, nav="sources")
def start(request: HttpRequest) -> HttpResponse:
    """Show the kinds of onboarding, and the drafts that the user can continue."""
    begun = tuple(
        Begun(draft=draft, words=steps.KINDS[Kind(draft.kind)], url=_continue_url(draft))
        for draft in drafts.unfinished(account_of(request))
    )
    notice = next((word for word in ("expired", "left", "remains") if word in request.GET), "")
    page = StartPage(begun=begun, notice=notice)
    return render(request, "onboarding/start.html", {"page": page})


@page(READ_POST, role=ADMIN, nav="sources", of={"kind": None})
@sensitive_post_parameters("password", "dsn")
def begin(request: HttpRequest, kind: str) -> HttpResponse:
    """Show the form of a new source's address; store a draft once the address works.

    ``?source=NAME`` begins a slot on a source that was added already.
    """
    if kind not in Kind.values:
        raise Http404(f"there is no way to begin that is called {kind!r}")
    if name := request.GET.get("source", ""):
        return _begin_on_known_source(request, kind, name)
    draft = SourceDraft(user=account_of(request), kind=kind)
    if request.method != "POST":
        return _connection_page(request, AddressForm(draft), kind)
    form = AddressForm(draft, request.POST)
    if _connect(form, draft):
        draft.save()
        return redirect(steps.after(draft, "connection"))
    return _connection_page(request, form, kind, status=422)


@page(READ_POST, role=ADMIN, nav="sources", of={"draft_id": None})
@sensitive_post_parameters("password", "dsn")
def connection(request: HttpRequest, draft_id: int) -> HttpResponse:
    """Show the address of a draft again; a changed address discards answers that depend on it."""
    draft = drafts.find(account_of(request), draft_id)
    if draft is None or draft.source_id is not None:
        return gone()
    if draft.state not in drafts.CHANGEABLE:
        return redirect("draft-progress", draft.pk)
    if request.method != "POST":
        return _connection_page(request, AddressForm(draft), draft.kind, draft)
    form, former_conninfo = AddressForm(draft, request.POST), draft.conninfo
    if _connect(form, draft):
        is_new_address = draft.conninfo != former_conninfo
        stored = drafts.move(draft) if is_new_address else drafts.keep_address(draft)
        return redirect(steps.after(draft, "connection")) if stored else gone()
    return _connection_page(request, form, draft.kind, draft, status=422)


def _connect(form: AddressForm, draft: SourceDraft) -> bool:
    """Connect to the address; on success fill in the draft, without saving, and return True."""
    reached = connect_draft(form, draft)
    if reached is None:
        return False
    known_source = known_as(reached, draft.conninfo)
    draft.answers |= {
        "name": reached.name,
        "form": form.kept(),
        "server": {"version": reached.version, "database": reached.database,
                   "role": reached.role},
        "known": str(known_source or ""),
    }  # fmt: skip
    if draft.kind == Kind.WATCH and "slot_name" not in draft.answers:
        draft.answers["slot_name"] = drafts.watch_name()
    return True


def _connection_page(
    request: HttpRequest,
    form: AddressForm,
    kind: str,
    draft: SourceDraft | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    page = ConnectionPage(frame=frame_of(kind, "connection", draft), form=form)
    return render(request, "onboarding/connection.html", {"page": page}, status=status)


def _begin_on_known_source(request: HttpRequest, kind: str, name: str) -> HttpResponse:
    """Begin a draft for a slot on a source that was added already."""
    source = get_object_or_404(Source, name=name, ephemeral=False)
    if kind != Kind.RECORD:
        raise Http404("a source that is known is monitored already")
    if request.method != "POST":
        page = KnownPage(frame=frame_of(kind, "connection"), source=source)
        return render(request, "onboarding/known.html", {"page": page})
    draft = drafts.begin_for(account_of(request), source)
    return redirect("draft-check", draft.pk)


def _continue_url(draft: SourceDraft) -> str:
    """Return the address at which the user continues a draft."""
    if draft.state not in drafts.CHANGEABLE:
        return reverse("draft-progress", args=[draft.pk])
    return steps.step_url(draft, steps.next_open(draft))


@page(GET, role=ADMIN, nav="sources", of={"draft_id": None})
def progress(request: HttpRequest, draft_id: int) -> HttpResponse:
    """Show the state of each step of a draft that is carried out or has ended."""
    draft = drafts.find(account_of(request), draft_id)
    if draft is None:
        return gone()
    if draft.state == State.OPEN:
        return redirect(_continue_url(draft))
    htmx = request.headers.get("HX-Request") == "true"
    name = "onboarding/progress_now.html" if htmx else "onboarding/progress.html"
    return render(request, name, {"page": progress_page(draft)})


@page(POST, role=ADMIN, of={"draft_id": None})
def cancel(request: HttpRequest, draft_id: int) -> HttpResponse:
    """Delete the draft; if a worker carries it out, have it stopped and undone."""
    draft = drafts.find(account_of(request), draft_id)
    if draft is None or drafts.drop(draft):
        # The failed draft's page has listed the undo statements that remain.
        notice = "remains" if draft is not None and draft.undo else "left"
        return redirect(f"{reverse('source-new')}?{notice}")
    return redirect("draft-progress", draft.pk)
