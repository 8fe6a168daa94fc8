"""The steps of a sign-in that follow the password.

Until the last step is done, the session only notes which account gave its password and when:
nobody is signed in, so no page, call of the API or socket needs to know of these steps. The session
gets a new key when it begins and when it ends.
"""

import hmac
import time

from django.contrib.auth import get_user_model, login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from replview.access import accounts, second_factor
from replview.access.accounts import AccountProblem
from replview.access.page import EVERYONE, GET_POST, page
from replview.features.accounts.attempts import locked_until
from replview.features.accounts.forms import LoginCodeForm, ReplacingPasswordForm
from replview.ui.forms import add_problem, posted

_BACKEND = "replview.access.rights.RightsBackend"
#: The address for a browser that is at no step of a sign-in.
LATE = "/login/?late"
#: The key of the session's data that holds the sign-in.
_PENDING_KEY = "pending_sign_in"
#: Seconds from the password to the end of the last step.
_PENDING_SECONDS = 1200


def begin(request: HttpRequest, user: User, next_url: str) -> HttpResponse:
    """Continue after the right password: sign the account in, or redirect to the next step."""
    request.session.flush()
    request.session.set_expiry(_PENDING_SECONDS)
    request.session[_PENDING_KEY] = {
        "account": user.pk,
        "password": user.get_session_auth_hash(),
        "began_at": int(time.time()),
        "next": next_url,
        "gave_code": False,
    }
    return _continue_sign_in(request, user)


def _continue_sign_in(request: HttpRequest, user: User) -> HttpResponse:
    """Redirect to the next step; after the last one sign the account in."""
    step = _next_step(request, user)
    return redirect(step) if step else redirect(finish(request, user))


def finish(request: HttpRequest, user: User) -> str:
    """Sign the account in, and return the address to continue at."""
    next_url: str = request.session.pop(_PENDING_KEY)["next"]
    request.session.set_expiry(None)
    login(request, user, backend=_BACKEND)
    return next_url


def _next_step(request: HttpRequest, user: User) -> str:
    """Return the name of the address of the next step; empty after the last one."""
    if not request.session[_PENDING_KEY]["gave_code"] and second_factor.is_on(user):
        return "login-code"
    if accounts.assigned_until(user):
        return "login-password"
    return "login-second-factor" if second_factor.is_missing(user) else ""


def account_at(request: HttpRequest, step: str) -> User | None:
    """Return the account whose sign-in is at this step; None where there is no such sign-in.

    A sign-in ends when it takes too long, and when the password is changed or the account closed.
    """
    pending = request.session.get(_PENDING_KEY)
    if pending is None or time.time() - pending["began_at"] > _PENDING_SECONDS:
        return None
    open_accounts = get_user_model()._default_manager.filter(is_active=True)
    user = open_accounts.filter(pk=pending["account"]).first()
    if user is None or not hmac.compare_digest(user.get_session_auth_hash(), pending["password"]):
        return None
    return user if _next_step(request, user) == step else None


@page(GET_POST, role=EVERYONE)
@never_cache
@login_not_required
@sensitive_post_parameters()
def code(request: HttpRequest) -> HttpResponse:
    """Ask for the code of the authenticator app, or a recovery code."""
    user = account_at(request, "login-code")
    if user is None:
        return redirect(LATE)
    form, status = LoginCodeForm(request, user, posted(request)), 200
    headers: dict[str, str] = {}
    if request.method == "POST":
        if form.is_valid():
            request.session[_PENDING_KEY]["gave_code"] = True
            request.session.modified = True
            return _continue_sign_in(request, user)
        status = 422
        if until := locked_until(request, user.get_username()):
            seconds = (until - timezone.now()).total_seconds()
            status, headers = 429, {"Retry-After": str(max(1, round(seconds)))}
    template = "registration/code.html"
    return TemplateResponse(request, template, {"form": form}, status=status, headers=headers)


@page(GET_POST, role=EVERYONE)
@never_cache
@login_not_required
@sensitive_post_parameters()
def new_password(request: HttpRequest) -> HttpResponse:
    """Ask for another password than the one that an admin set."""
    user = account_at(request, "login-password")
    if user is None:
        return redirect(LATE)
    form = ReplacingPasswordForm(user, posted(request))
    if form.is_valid():
        try:
            accounts.change_password(user, form.cleaned_data["password"], by_owner=True)
        except AccountProblem as problem:
            add_problem(form, problem)
        else:
            request.session[_PENDING_KEY]["password"] = user.get_session_auth_hash()
            request.session.modified = True
            return _continue_sign_in(request, user)
    page = {"form": form, "account": user.get_username()}
    status = 422 if form.errors else 200
    return render(request, "registration/new_password.html", {"page": page}, status=status)
