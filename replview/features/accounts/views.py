"""Views with which admins manage accounts."""

from typing import Any

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
from replview.access.rights import Role, ensure_roles
from replview.features.accounts.pages import SetupPage, build_account_page, build_accounts_page
from replview.features.accounts.sign_in_steps import begin
from replview.live.publisher import publisher
from replview.store.models import ApiToken, Grant, Source
from replview.store.write.access_record import note
from replview.ui.params import Params


@page(GET_POST, role=ADMIN, nav=Nav(group="", label="Accounts", icon="actor"))
def listing(request: HttpRequest) -> HttpResponse:
    """List all accounts, or create one."""
    errors: dict[str, str] = {}
    if request.method == "POST":
        typed = request.POST.get("password", "")
        name = Params(request.POST).text("name", None, strip=False)
        try:
            user = accounts.create_account(
                name, Role.of_word(request.POST.get("role", "")), typed or None
            )
        except AccountProblem as problem:
            errors = {problem.field: str(problem)}
        else:
            return redirect("account", user_id=user.pk)
    return _show_accounts(request, errors)


def _show_accounts(request: HttpRequest, errors: dict[str, str]) -> HttpResponse:
    values = {name: request.POST.get(name, "") for name in ("name", "role")}
    page = build_accounts_page(errors, values)
    return render(request, "accounts/accounts.html", {"page": page}, status=422 if errors else 200)


@page(GET, role=ADMIN, nav="accounts", of={"user_id": None})
def account(request: HttpRequest, user_id: int) -> HttpResponse:
    """Show one account."""
    return _show_account(request, _find_account(user_id))


@page(POST, role=ADMIN, of={"user_id": None})
def change_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give the account another role, or none."""
    return _change(request, user_id, lambda user: accounts.change_role(user, _chosen_role(request)))


@page(POST, role=ADMIN, of={"user_id": None})
def password(request: HttpRequest, user_id: int) -> HttpResponse:
    """Set the account's password."""
    typed, by_owner = request.POST.get("password", ""), user_id == request.user.pk
    return _change(
        request, user_id, lambda user: accounts.change_password(user, typed, by_owner=by_owner)
    )


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
    params, name = Params(request.POST), request.POST.get("source", "")
    source = get_object_or_404(Source, name=name) if name else None
    tables = params.text("tables", None).replace(",", "\n").splitlines()
    by = request.user.get_username()
    if group_name := params.text("group", 150):
        ensure_roles()
        try:
            with transaction.atomic():
                group, _ = Group.objects.get_or_create(name=group_name)
                accounts.give_grant(group, source, tables, by=by)
        except AccountProblem as problem:
            return _show_accounts(request, {problem.field: str(problem)})
        return redirect("accounts")
    user_id = params.number("user", digits=9)
    if user_id is None:
        raise Http404("there is no such account")
    return _change(request, user_id, lambda user: accounts.give_grant(user, source, tables, by=by))


@page(POST, role=ADMIN, of={"grant_id": None})
def take(request: HttpRequest, grant_id: int) -> HttpResponse:
    """Remove a grant."""
    grant = get_object_or_404(Grant.objects.select_related("user", "group", "source"), pk=grant_id)
    accounts.take_grant(grant)
    return redirect("account", user_id=grant.user_id) if grant.user_id else redirect("accounts")


def _change(request: HttpRequest, user_id: int, action: Any) -> HttpResponse:
    """Run the action and show the account, with the reason if the action was refused."""
    user = _find_account(user_id)
    try:
        action(user)
    except AccountProblem as problem:
        return _show_account(request, user, problem=problem)
    publisher().account_changed(user_id)
    key = request.session.session_key
    if user == request.user and (key is None or not request.session.exists(key)):
        # The action ended this session too: flush it, so that it is not saved again.
        request.session.flush()
    return redirect("account", user_id=user_id)


def _show_account(
    request: HttpRequest, user: User, *, problem: AccountProblem | None = None
) -> HttpResponse:
    page = build_account_page(user, problem)
    return render(request, "accounts/account.html", {"page": page}, status=422 if problem else 200)


def _find_account(user_id: int) -> User:
    return get_object_or_404(get_user_model(), pk=user_id)


def _chosen_role(request: HttpRequest) -> Role | None:
    word = request.POST.get("role", "")
    role = Role.of_word(word)
    if role is None and word:
        raise AccountProblem(f"there is no role {word}", field="role")
    return role


@page(GET_POST, role=EVERYONE, of={"code": None})
@never_cache
@login_not_required
@sensitive_post_parameters()
def setup(request: HttpRequest, code: str) -> HttpResponse:
    """Create the first admin from a setup link, and sign this browser in."""
    if not is_good(code):
        raise Http404("this address has expired")
    errors: dict[str, str] = {}
    name = Params(request.POST).text("name", None, strip=False)
    if request.method == "POST":
        password = request.POST.get("password", "")
        if password != request.POST.get("again", ""):
            errors["again"] = "The two passwords differ."
        else:
            try:
                user = first_admin(code, name, password)
            except AccountProblem as problem:
                errors[problem.field] = str(problem)
            else:
                if user is None:
                    raise Http404("this address has expired")
                return begin(request, user, reverse("overview"))
    page = SetupPage(errors=errors, name=name)
    return render(request, "accounts/setup.html", {"page": page}, status=422 if errors else 200)
