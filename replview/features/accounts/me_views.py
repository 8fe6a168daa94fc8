"""Views of a user's own account: password, sessions and API tokens."""

from django import forms
from django.contrib.auth import update_session_auth_hash
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from replview.access import accounts, open_sessions, session_policy
from replview.access.accounts import AccountProblem
from replview.access.page import GET, POST, SIGNED_IN, VIEWER, page
from replview.access.rights import account_of
from replview.access.tokens import ScopeRefused, make_token
from replview.features.accounts.forms import (
    NAME_TAKEN,
    EndSessionForm,
    OwnPasswordForm,
    TokenForm,
)
from replview.features.accounts.pages import build_own_page
from replview.features.accounts.sign_in import leave_nothing
from replview.live.publisher import publisher
from replview.store.models import ApiToken
from replview.store.write.access_record import note
from replview.ui.forms import add_problem, error_sentence


@page(GET, role=SIGNED_IN)
@never_cache
def me(request: HttpRequest) -> HttpResponse:
    """Show the user's own account."""
    return show(request)


@page(POST, role=SIGNED_IN)
@never_cache
def password(request: HttpRequest) -> HttpResponse:
    """Change the password, and end every other session."""
    user, form = account_of(request), OwnPasswordForm(request, request.POST)
    if not form.is_valid():
        return show(request, refused=form)
    try:
        accounts.change_password(user, form.cleaned_data["password"], by_owner=True)
    except AccountProblem as problem:
        add_problem(form, problem)
        return show(request, refused=form)
    publisher().account_changed(user.pk)
    # Keep this session, with a new session key.
    update_session_auth_hash(request, user)
    session_policy.begin(request.session)
    return redirect("me")


@page(POST, role=SIGNED_IN, of={"name": None})
@never_cache
def end_session(request: HttpRequest, name: str) -> HttpResponse:
    """End one session, after the account has proved its password again."""
    user, form = account_of(request), EndSessionForm(request, name, request.POST)
    if not form.is_valid():
        return show(request, refused=form)
    if open_sessions.end_session(user, name):
        note("changed_settings", subject=f"account {user}", details={"act": "session ended"})
        publisher().account_changed(user.pk)
    return redirect("me")


@page(POST, role=SIGNED_IN)
def sign_out(request: HttpRequest) -> HttpResponse:
    """End every session of the account, including this one."""
    accounts.sign_out(user := account_of(request))
    publisher().account_changed(user.pk)
    # The session is deleted already: flush it, so that it is not saved again.
    request.session.flush()
    return leave_nothing(redirect("login"))


@page(POST, role=VIEWER)
@never_cache
def new_token(request: HttpRequest) -> HttpResponse:
    """Create a token, and show it once in the response."""
    user = account_of(request)
    form = TokenForm(user, request.POST)
    if not form.is_valid():
        return show(request, refused=form)
    name, scope, days = (form.cleaned_data[field] for field in ("name", "scope", "days"))
    try:
        with transaction.atomic():
            # Delete a revoked token of the same name.
            user.api_tokens.filter(name=name, revoked_at__isnull=False).delete()
            token, row = make_token(user, name, days=days, scope=scope)
    except ScopeRefused as problem:
        form.add_error("scope", error_sentence(problem))
        return show(request, refused=form)
    except IntegrityError:
        form.add_error("name", NAME_TAKEN)
        return show(request, refused=form)
    details = {"act": "created", "scope": scope, "days": days}
    note("changed_settings", subject=f"token {name} of {user}", details=details)
    return show(request, made=row, token=token)


@page(POST, role=SIGNED_IN, of={"token_id": None})
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of the user's own tokens."""
    user = account_of(request)
    row = get_object_or_404(user.api_tokens, pk=token_id, revoked_at=None)
    row.revoked_at = timezone.now()
    row.save(update_fields=["revoked_at"])
    note("changed_settings", subject=f"token {row.name} of {user}", details={"act": "revoked"})
    return redirect("me")


def show(
    request: HttpRequest,
    *,
    refused: forms.Form | None = None,
    made: ApiToken | None = None,
    token: str = "",
) -> HttpResponse:
    """Show the user's own account, with a form that was refused or a token that was created."""
    page = build_own_page(request, refused=refused, made=made, token=token)
    return render(request, "accounts/me.html", {"page": page}, status=422 if refused else 200)
