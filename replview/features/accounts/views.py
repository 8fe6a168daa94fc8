"""Views with which admins manage accounts."""

from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from replview.access import accounts, second_factor
from replview.access.accounts import AccountProblem
from replview.access.first_admin import first_admin, is_good
from replview.access.page import ADMIN, EVERYONE, GET, GET_POST, POST, Nav, page
from replview.access.rights import ensure_roles
from replview.features.accounts.forms import (
    AssignedPasswordForm,
    GrantForm,
    NewAccountForm,
    RoleForm,
    SetupForm,
)
from replview.features.accounts.pages import build_account_page, build_accounts_page
from replview.features.accounts.sign_in_steps import begin
from replview.live.publisher import publisher
from replview.store.models import ApiToken, Grant
from replview.store.write.access_record import note
from replview.ui.forms import add_problem, posted


@page(GET_POST, role=ADMIN, nav=Nav(group="", label="Accounts", icon="actor"))
def listing(request: HttpRequest) -> HttpResponse:
    """List all accounts, or create one."""
    form = NewAccountForm(posted(request))
    if form.is_valid():
        try:
            user = accounts.create_account(**form.cleaned_data)
        except AccountProblem as problem:
            add_problem(form, problem)
        else:
            return redirect("account", user_id=user.pk)
    return _show_accounts(request, form)


def _show_accounts(request: HttpRequest, form: NewAccountForm | GrantForm) -> HttpResponse:
    page, status = build_accounts_page(form), 422 if form.errors else 200
    return render(request, "accounts/accounts.html", {"page": page}, status=status)


@page(GET, role=ADMIN, nav="accounts", of={"user_id": None})
def account(request: HttpRequest, user_id: int) -> HttpResponse:
    """Show one account."""
    return _show_account(request, _find_account(user_id))


@page(POST, role=ADMIN, of={"user_id": None})
def change_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give the account another role, or none."""
    form = RoleForm(request.POST)
    return _change(
        request, user_id, lambda user: accounts.change_role(user, form.cleaned_data["role"]), form
    )


@page(POST, role=ADMIN, of={"user_id": None})
def password(request: HttpRequest, user_id: int) -> HttpResponse:
    """Set the account's password."""
    form, by_owner = AssignedPasswordForm(request.POST), user_id == request.user.pk

    def change(user: User) -> None:
        accounts.change_password(user, form.cleaned_data["password"], by_owner=by_owner)

    return _change(request, user_id, change, form)


@page(POST, role=ADMIN, of={"user_id": None})
def remove_second_factor(request: HttpRequest, user_id: int) -> HttpResponse:
    """Remove the account's second factor, such as a lost phone."""

    def remove(user: User) -> None:
        if user == request.user:
            raise AccountProblem("turn your own second factor off on the page of your account")
        second_factor.remove(user)

    return _change(request, user_id, remove)


@page(POST, role=ADMIN, of={"user_id": None})
def active(request: HttpRequest, user_id: int) -> HttpResponse:
    """Close the account, or open it again."""
    is_open = request.POST.get("active") == "1"
    return _change(request, user_id, accounts.open_account if is_open else accounts.close_account)


@page(POST, role=ADMIN, of={"user_id": None})
def sign_out(request: HttpRequest, user_id: int) -> HttpResponse:
    """End every session of the account."""
    return _change(request, user_id, accounts.sign_out)


@page(POST, role=ADMIN, of={"user_id": None})
def unlock(request: HttpRequest, user_id: int) -> HttpResponse:
    """Forget the account's failed logins."""
    return _change(request, user_id, accounts.unlock)


@page(POST, role=ADMIN, of={"user_id": None, "token_id": None})
def revoke_token(request: HttpRequest, user_id: int, token_id: int) -> HttpResponse:
    """Revoke one of the account's tokens."""

    def revoke(user: User) -> None:
        tokens = ApiToken.objects.filter(pk=token_id, user=user, revoked_at=None)
        row = tokens.first()
        if row is None:
            raise Http404("there is no such token")
        tokens.update(revoked_at=timezone.now())
        note("changed_settings", subject=f"token {row.name} of {user}", details={"act": "revoked"})

    return _change(request, user_id, revoke)


@page(POST, role=ADMIN)
def give(request: HttpRequest) -> HttpResponse:
    """Create a grant for an account or a group."""
    form, by = GrantForm(request.POST), request.user.get_username()
    is_valid = form.is_valid()
    user: User | None = form.cleaned_data.get("user")
    source, tables = form.cleaned_data.get("source"), form.cleaned_data.get("tables", ())
    if user is not None:
        return _change(
            request, user.pk, lambda user: accounts.give_grant(user, source, tables, by=by), form
        )
    if not is_valid:
        return _show_accounts(request, form)
    ensure_roles()
    with transaction.atomic():
        group, _ = Group.objects.get_or_create(name=form.cleaned_data["group"])
        accounts.give_grant(group, source, tables, by=by)
    return redirect("accounts")


@page(POST, role=ADMIN, of={"grant_id": None})
def take(request: HttpRequest, grant_id: int) -> HttpResponse:
    """Remove a grant."""
    grant = get_object_or_404(Grant.objects.select_related("user", "group", "source"), pk=grant_id)
    accounts.take_grant(grant)
    return redirect("account", user_id=grant.user_id) if grant.user_id else redirect("accounts")


def _change(
    request: HttpRequest, user_id: int, action: Any, form: forms.Form | None = None
) -> HttpResponse:
    """Run the action and show the account, with the reason if the action was refused."""
    user = _find_account(user_id)
    if form is not None and not form.is_valid():
        return _show_account(request, user, form=form)
    try:
        action(user)
    except AccountProblem as problem:
        if form is None:
            return _show_account(request, user, problem=problem)
        add_problem(form, problem)
        return _show_account(request, user, form=form)
    publisher().account_changed(user_id)
    key = request.session.session_key
    if user == request.user and (key is None or not request.session.exists(key)):
        # The action ended this session too: flush it, so that it is not saved again.
        request.session.flush()
    return redirect("account", user_id=user_id)


def _show_account(
    request: HttpRequest,
    user: User,
    *,
    form: forms.Form | None = None,
    problem: AccountProblem | None = None,
) -> HttpResponse:
    page = build_account_page(user, refused=form, problem=problem)
    status = 422 if form or problem else 200
    return render(request, "accounts/account.html", {"page": page}, status=status)


def _find_account(user_id: int) -> User:
    return get_object_or_404(get_user_model(), pk=user_id)


@page(GET_POST, role=EVERYONE, of={"code": None})
@never_cache
@login_not_required
@sensitive_post_parameters()
def setup(request: HttpRequest, code: str) -> HttpResponse:
    """Create the first admin from a setup link, and sign this browser in."""
    if not is_good(code):
        raise Http404("this address has expired")
    form = SetupForm(posted(request))
    if form.is_valid():
        try:
            user = first_admin(code, form.cleaned_data["name"], form.cleaned_data["password"])
        except AccountProblem as problem:
            add_problem(form, problem)
        else:
            if user is None:
                raise Http404("this address has expired")
            return begin(request, user, reverse("overview"))
    status = 422 if form.errors else 200
    return render(request, "accounts/setup.html", {"form": form}, status=status)
