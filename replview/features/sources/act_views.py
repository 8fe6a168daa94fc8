"""Views of acts on a source: change credentials, address and name, remove."""

import json
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from replview.access.page import ADMIN, GET_POST, OF_SOURCE, page
from replview.access.rights import Role
from replview.acts.credentials import Credentials, plan_credentials, set_credentials
from replview.acts.moving import Move, carry_out_move, plan_move
from replview.acts.sources import plan_remove, plan_rename, remove_source, rename_source
from replview.features.sources.forms import CredentialsForm, MoveForm, RenameForm
from replview.store.models import Slot, Source
from replview.store.secrets import SecretKeyChanged, seal, unseal
from replview.ui import managed
from replview.ui.forms import error_sentence, posted

_DRAFT_KEY = "move"
#: Seconds for which a tested address is kept, sealed, until it is confirmed.
_DRAFT_SECONDS = 900
_SECRET_FIELDS = ("dsn", "password")


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsPage(managed.ActPage):
    """The page that changes a source's credentials."""

    form: CredentialsForm


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePage(managed.ActPage):
    """The page that moves a source to another address."""

    form: MoveForm
    #: Result of testing the address; None before one was tested.
    move: Move | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamePage(managed.ActPage):
    """The page that renames a source."""

    form: RenameForm


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePage(managed.ActPage):
    """The page that removes a source with its slots."""

    slots: tuple[Slot, ...]
    #: True when slots and publications are left on the source.
    leave: bool


@page(GET_POST, role=ADMIN, nav="sources", of=OF_SOURCE)
@never_cache
@sensitive_post_parameters(*_SECRET_FIELDS)
def credentials(request: HttpRequest, source_name: str) -> HttpResponse:
    """Change the credentials: test them, then store them sealed; never show them again."""
    source = managed.source_for(request, source_name, Role.ADMIN)
    form = CredentialsForm(posted(request))
    page = CredentialsPage(source=source, act=plan_credentials(source), form=form)
    status = 422 if form.errors else 200
    if form.is_valid():
        new = Credentials(**form.cleaned_data)
        try:
            connected = set_credentials(source, new, by=request.user.get_username())
        except managed.EXPECTED as error:
            page, status = replace(page, trouble=managed.trouble_of(error)), 422
        else:
            lines = [
                f"Connected as {connected.server.role} on database {connected.server.database}: "
                "the same server as before.",
                "Encrypted with TLS."
                if connected.tls
                else "Not encrypted: no TLS on this connection.",
                "Receivers connect again within two seconds.",
            ]
            title = f"{source} has new credentials."
            return _show_outcome(
                request, managed.Outcome(title=title, lines=lines, links=_links(source))
            )
    return render(request, "acts/credentials.html", {"page": page}, status=status)


@page(GET_POST, role=ADMIN, nav="sources", of=OF_SOURCE)
@never_cache
@sensitive_post_parameters(*_SECRET_FIELDS)
def move(request: HttpRequest, source_name: str) -> HttpResponse:
    """Change the address: test it, show the outcome for each slot, then ask for confirmation."""
    source = managed.source_for(request, source_name, Role.ADMIN)
    action = request.POST.get("action", "")
    if action == "forget":
        request.session.pop(_DRAFT_KEY, None)
        return redirect("source-move", source.name)
    form = MoveForm(request.POST if action == "try" else None)
    page = MovePage(source=source, form=form)
    if form.errors:
        return render(request, "acts/move.html", {"page": page}, status=422)
    typed = form.cleaned_data if action == "try" else _tested_address(request, source)
    try:
        if typed is not None:
            planned = plan_move(source, **typed)
            page = replace(
                page, move=planned, act=planned.act, shown=managed.digest_of(planned.act)
            )
            if action == "try":
                # Keep the address in the session, sealed: it may hold a password.
                sealed = seal(json.dumps(typed))
                request.session[_DRAFT_KEY] = {"source": source.pk, "sealed": sealed}
                return redirect(f"{reverse('source-move', args=[source.name])}?tried")
            if action == "move":
                return _move_source(request, source, planned)
    except managed.EXPECTED as error:
        page = replace(page, trouble=managed.trouble_of(error))
        if action == "try":
            request.session.pop(_DRAFT_KEY, None)
        return render(request, "acts/move.html", {"page": page}, status=422)
    return render(request, "acts/move.html", {"page": page})


def _move_source(request: HttpRequest, source: Source, planned: Move) -> HttpResponse:
    managed.check_confirmed(request, planned.act)
    carry_out_move(source, planned, by=request.user.get_username())
    request.session.pop(_DRAFT_KEY, None)
    missing = [outcome.name for outcome in planned.outcomes if outcome.word == "missing"]
    links = [(f"Create {name} there", reverse("slot-start", args=[source.name, name]))
             for name in missing]  # fmt: skip
    lines = [outcome.sentence for outcome in planned.outcomes] or ["It has no slot of replview."]
    title = f"{source} is read at its new address."
    return _show_outcome(
        request, managed.Outcome(title=title, lines=lines, links=_links(source) + links)
    )


@page(GET_POST, role=ADMIN, nav="sources", of=OF_SOURCE)
def rename(request: HttpRequest, source_name: str) -> HttpResponse:
    """Rename the source."""
    source = managed.source_for(request, source_name, Role.ADMIN)
    form = RenameForm(posted(request), initial={"name": source.name})
    name = form.cleaned_data["name"] if form.is_valid() else ""
    page = RenamePage(source=source, act=plan_rename(source, name), form=form)
    if not form.is_valid():
        status = 422 if form.errors else 200
        return render(request, "acts/rename.html", {"page": page}, status=status)
    former = source.name
    try:
        rename_source(source, name, by=request.user.get_username())
    except managed.EXPECTED as error:
        source.name, trouble = former, managed.trouble_of(error)
        form.add_error("name", error_sentence(trouble))
        page = replace(page, trouble=trouble)
        return render(request, "acts/rename.html", {"page": page}, status=422)
    title = f"{former} is now named {source.name}."
    return _show_outcome(request, managed.Outcome(title=title, links=_links(source)))


@page(GET_POST, role=ADMIN, nav="sources", of=OF_SOURCE)
def remove(request: HttpRequest, source_name: str) -> HttpResponse:
    """Remove the source and its slots."""
    source = managed.source_for(request, source_name, Role.ADMIN)
    params = request.POST if request.method == "POST" else request.GET
    leave = params.get("leave") == "on"
    act = plan_remove(source, with_slots=True, leave_on_source=leave)
    slots = Slot.objects.filter(source=source, temporary=False)
    slots = slots.exclude(desired=Slot.Desired.REMOVING)
    page = RemovePage(source=source, act=act, leave=leave, shown=managed.digest_of(act),
                      slots=tuple(slots.order_by("name")))  # fmt: skip
    if request.method == "GET":
        return render(request, "acts/remove.html", {"page": page})
    try:
        managed.check_confirmed(request, act)
        by = request.user.get_username()
        removed = remove_source(source, by=by, with_slots=True, leave_on_source=leave)
    except managed.EXPECTED as error:
        page = replace(page, trouble=managed.trouble_of(error))
        return render(request, "acts/remove.html", {"page": page}, status=422)
    later = "The history of its slots is being deleted; the source is removed after that."
    outcome = managed.Outcome(
        title=f"{source_name} was removed.",
        lines=[] if removed else [later],
        statements=managed.statements_of(act),
        links=[("All sources", reverse("sources"))],
    )
    return _show_outcome(request, outcome)


def _tested_address(request: HttpRequest, source: Source) -> dict[str, Any] | None:
    """Return the address that this account tested last; None if there is none or it expired."""
    draft = request.session.get(_DRAFT_KEY)
    if not isinstance(draft, dict) or draft.get("source") != source.pk:
        return None
    try:
        address: dict[str, Any] = json.loads(unseal(draft["sealed"], within_seconds=_DRAFT_SECONDS))
    except SecretKeyChanged:
        request.session.pop(_DRAFT_KEY, None)
        return None
    return address


def _links(source: Source) -> list[tuple[str, str]]:
    source_url = reverse("source", args=[source.name])
    return [(source.name, source_url), ("All sources", reverse("sources"))]


def _show_outcome(request: HttpRequest, outcome: managed.Outcome) -> HttpResponse:
    managed.keep_outcome(request, outcome)
    return redirect("managed")
