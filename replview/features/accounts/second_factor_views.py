"""Views that set up the second factor of the user's own account, and turn it off."""

from dataclasses import dataclass

from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from replview.access import second_factor, session_policy
from replview.access.accounts import AccountProblem
from replview.access.page import EVERYONE, GET_POST, POST, SIGNED_IN, page
from replview.access.rights import account_of
from replview.features.accounts import me_views, sign_in_steps
from replview.features.accounts.forms import (
    FirstCodeForm,
    SecondFactorForm,
    SecondFactorOffForm,
)
from replview.features.accounts.sign_in import leave_nothing
from replview.live.publisher import publisher
from replview.store.secrets import SecretKeyChanged, seal, unseal
from replview.ui.forms import add_problem, posted

#: The key of the session's data with the sealed secret that no app has proved to have yet.
_OFFERED_SECRET_KEY = "offered_secret"
_OFFERED_SECRET_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUpPage:
    """The page with a new secret, and the form for the first code."""

    account: str
    #: The address of an image, which holds the same secret.
    qr_code: str
    #: The secret in groups of four characters.
    secret: str
    #: True during a sign-in, which cannot go on without a second factor.
    signing_in: bool
    form: FirstCodeForm


@page(GET_POST, role=SIGNED_IN)
@never_cache
@sensitive_post_parameters()
def set_up(request: HttpRequest) -> HttpResponse:
    """Set up a second factor, given the password, and show the recovery codes once."""
    user = account_of(request)
    if second_factor.is_on(user) or not user.has_usable_password():
        return redirect("me")
    form = SecondFactorForm(request, posted(request))
    codes = _set_up(request, user, form)
    if codes is None:
        return _show_secret(request, user, form)
    publisher().account_changed(user.pk)
    # Keep this session, with a new session key.
    update_session_auth_hash(request, user)
    session_policy.begin(request.session)
    return _show_codes(request, codes, reverse("me"))


@page(GET_POST, role=EVERYONE)
@never_cache
@login_not_required
@sensitive_post_parameters()
def login_set_up(request: HttpRequest) -> HttpResponse:
    """Set up the second factor that a sign-in needs, sign in, and show the recovery codes once."""
    user = sign_in_steps.account_at(request, "login-second-factor")
    if user is None:
        return redirect(sign_in_steps.LATE)
    form = FirstCodeForm(posted(request))
    codes = _set_up(request, user, form)
    if codes is None:
        return _show_secret(request, user, form, signing_in=True)
    return _show_codes(request, codes, sign_in_steps.finish(request, user))


@page(POST, role=SIGNED_IN)
@never_cache
@sensitive_post_parameters()
def turn_off(request: HttpRequest) -> HttpResponse:
    """Turn the second factor off, given the password and a code, and end every session."""
    user = account_of(request)
    if not second_factor.is_on(user):
        return redirect("me")
    form = SecondFactorOffForm(request, request.POST)
    if not form.is_valid():
        return me_views.show(request, refused=form)
    second_factor.remove(user)
    publisher().account_changed(user.pk)
    # The session is deleted already: flush it, so that it is not saved again.
    request.session.flush()
    return leave_nothing(redirect("login"))


def _set_up(request: HttpRequest, user: User, form: FirstCodeForm) -> list[str] | None:
    """Set the offered secret up, and return the recovery codes; None where the form is invalid."""
    if not form.is_valid():
        return None
    try:
        codes = second_factor.set_up(user, _offered_secret(request), form.cleaned_data["code"])
    except AccountProblem as problem:
        add_problem(form, problem)
        return None
    del request.session[_OFFERED_SECRET_KEY]
    return codes


def _offered_secret(request: HttpRequest) -> str:
    """Return the secret that this session was shown, or a new one where that is missing or old."""
    try:
        return unseal(request.session[_OFFERED_SECRET_KEY], within_seconds=_OFFERED_SECRET_SECONDS)
    except (KeyError, SecretKeyChanged):
        secret = second_factor.new_secret()
        request.session[_OFFERED_SECRET_KEY] = seal(secret)
        return secret


def _show_secret(
    request: HttpRequest, user: User, form: FirstCodeForm, *, signing_in: bool = False
) -> HttpResponse:
    secret = _offered_secret(request)
    page = SetUpPage(
        account=user.get_username(),
        qr_code=second_factor.qr_code(secret, user, request.get_host()),
        secret=" ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
        signing_in=signing_in,
        form=form,
    )
    status = 422 if form.errors else 200
    return render(request, "registration/second_factor.html", {"page": page}, status=status)


def _show_codes(request: HttpRequest, codes: list[str], next_url: str) -> HttpResponse:
    page = {"text": "\n".join(codes), "next": next_url}
    return render(request, "registration/recovery_codes.html", {"page": page})
