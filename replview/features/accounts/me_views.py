"""Views of a user's own account: password, sessions and API tokens."""

import time

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
from replview.features.accounts.attempts import wrong_password
from replview.features.accounts.pages import build_own_page
from replview.features.accounts.sign_in import leave_nothing
from replview.live.publisher import publisher
from replview.store.models import ApiToken
from replview.store.write.access_record import note
from replview.text.parsing import whole_number
from replview.ui.params import Params

_MAX_DAYS = 3650
#: Seconds since the sign-in within which an account without a password here may end a session.
_RECENT_SIGN_IN_SECONDS = 600
_NAME_TAKEN = "A token with this name exists already."


@page(GET, role=SIGNED_IN)
@never_cache
def me(request: HttpRequest) -> HttpResponse:
    """Show the user's own account."""
    return show(request)


@page(POST, role=SIGNED_IN)
@never_cache
def password(request: HttpRequest) -> HttpResponse:
    """Change the password, and end every other session."""
    user = account_of(request)
    if refusal := wrong_password(request, user):
        return show(request, errors={"old": refusal})
    new = request.POST.get("new", "")
    if new != request.POST.get("again", ""):
        return show(request, errors={"again": "The two passwords differ."})
    try:
        accounts.change_password(user, new, by_owner=True)
    except AccountProblem as problem:
        return show(request, errors={"new": str(problem)})
    publisher().account_changed(user.pk)
    # Keep this session, with a new session key.
    update_session_auth_hash(request, user)
    session_policy.begin(request.session)
    return redirect("me")


@page(POST, role=SIGNED_IN, of={"name": None})
@never_cache
def end_session(request: HttpRequest, name: str) -> HttpResponse:
    """End one session, after the account has proved its password again."""
    user = account_of(request)
    if user.has_usable_password():
        refusal = wrong_password(request, user)
    else:
        began_at = int(request.session.get(open_sessions.SIGNED_IN_AT) or 0)
        is_late = time.time() - began_at > _RECENT_SIGN_IN_SECONDS
        refusal = "Sign in again first: your last sign-in is too long ago." if is_late else ""
    if refusal:
        return show(request, errors={"session": refusal})
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
    params = Params(request.POST)
    name = params.text("name", 100)
    days, scope = params.text("days"), request.POST.get("scope", "")
    errors: dict[str, str] = {}
    if not name:
        errors["name"] = "Enter a name, such as the program that uses the token."
    elif user.api_tokens.filter(name=name, revoked_at=None).exists():
        errors["name"] = _NAME_TAKEN
    day_count = whole_number(days, digits=4) or 0
    if days and not 1 <= day_count <= _MAX_DAYS:
        errors["days"] = f"Days from 1 to {_MAX_DAYS}, or empty."
    if scope not in ApiToken.Scope.values:
        errors["scope"] = "Choose a scope."
    if errors:
        return show(request, errors=errors)
    try:
        with transaction.atomic():
            # Delete a revoked token of the same name.
            user.api_tokens.filter(name=name, revoked_at__isnull=False).delete()
            token, row = make_token(user, name, days=day_count or None, scope=scope)
    except ScopeRefused as problem:
        return show(request, errors={"scope": str(problem)})
    except IntegrityError:
        return show(request, errors={"name": _NAME_TAKEN})
    details = {"act": "created", "scope": scope, "days": day_count or None}
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
    errors: dict[str, str] | None = None,
    made: ApiToken | None = None,
    token: str = "",
) -> HttpResponse:
    """Show the user's own account, with the errors of a form or a token that was created."""
    values = {name: request.POST.get(name, "") for name in ("name", "days", "scope")}
    page = build_own_page(
        account_of(request),
        errors=errors or {},
        values=values if errors else {},
        session_key=request.session.session_key,
        made=made,
        token=token,
    )
    return render(request, "accounts/me.html", {"page": page}, status=422 if errors else 200)
