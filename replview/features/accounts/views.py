"""Accounts, for admins: who there is, what each may, and what is done about it."""

from typing import Any

from axes.models import AccessAttempt
from django.contrib.auth import get_user_model, login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from replview.access import accounts
from replview.access.accounts import AccountProblem
from replview.access.first_admin import first_admin, is_good
from replview.access.page import ADMIN, EVERYONE, GET, GET_POST, POST, Nav, page
from replview.access.rights import Role, ensure_roles, role_of, users_with_rights
from replview.live.publisher import publisher
from replview.store.models import ApiToken, Grant, Source
from replview.store.write.access_record import note
from replview.text.formats import plural
from replview.ui.params import Params

_MOST = 500
_BACKEND = "replview.access.rights.RightsBackend"


@page(GET_POST, role=ADMIN, nav=Nav(group="", label="Accounts", icon="actor"))
def listing(request: HttpRequest) -> HttpResponse:
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
    return _list(request, errors)


def _list(request: HttpRequest, errors: dict[str, str]) -> HttpResponse:
    page: dict[str, Any] = {
        "rows": _rows(),
        "groups": _groups(),
        "roles": [role.word for role in Role],
        "sources": list(Source.objects.values_list("name", flat=True)),
        "errors": errors,
        "values": {name: request.POST.get(name, "") for name in ("name", "role")},
    }
    page["sentence"] = _sentence(page["rows"])
    return render(request, "accounts/accounts.html", page, status=422 if errors else 200)


@page(GET, role=ADMIN, nav="accounts", of={"user_id": None})
def account(request: HttpRequest, user_id: int) -> HttpResponse:
    return _show(request, _find(user_id))


@page(POST, role=ADMIN, of={"user_id": None})
def change_role(request: HttpRequest, user_id: int) -> HttpResponse:
    return _do(request, user_id, lambda user: accounts.change_role(user, _role(request)))


@page(POST, role=ADMIN, of={"user_id": None})
def password(request: HttpRequest, user_id: int) -> HttpResponse:
    typed = request.POST.get("password", "")
    return _do(request, user_id, lambda user: accounts.change_password(user, typed))


@page(POST, role=ADMIN, of={"user_id": None})
def active(request: HttpRequest, user_id: int) -> HttpResponse:
    """Close the account, or open it again."""
    wanted = request.POST.get("active") == "1"
    return _do(request, user_id, accounts.open_account if wanted else accounts.close_account)


@page(POST, role=ADMIN, of={"user_id": None})
def sign_out(request: HttpRequest, user_id: int) -> HttpResponse:
    return _do(request, user_id, accounts.sign_out)


@page(POST, role=ADMIN, of={"user_id": None})
def unlock(request: HttpRequest, user_id: int) -> HttpResponse:
    return _do(request, user_id, accounts.unlock)


@page(POST, role=ADMIN, of={"user_id": None, "token_id": None})
def revoke_token(request: HttpRequest, user_id: int, token_id: int) -> HttpResponse:

    def revoke(user: User) -> None:
        found = ApiToken.objects.filter(pk=token_id, user=user, revoked_at=None)
        row = found.first()
        if row is None:
            raise Http404("there is no such token")
        found.update(revoked_at=timezone.now())
        note("changed_settings", subject=f"token {row.name} of {user}", details={"act": "revoked"})

    return _do(request, user_id, revoke)


@page(POST, role=ADMIN)
def give(request: HttpRequest) -> HttpResponse:
    sent, name = Params(request.POST), request.POST.get("source", "")
    source = get_object_or_404(Source, name=name) if name else None
    tables = sent.text("tables", None).replace(",", "\n").splitlines()
    by = request.user.get_username()
    if group_name := sent.text("group", 150):
        ensure_roles()
        try:
            with transaction.atomic():
                group, _ = Group.objects.get_or_create(name=group_name)
                accounts.give_grant(group, source, tables, by=by)
        except AccountProblem as problem:
            return _list(request, {problem.field: str(problem)})
        return redirect("accounts")
    user_id = sent.number("user", digits=9)
    if user_id is None:
        raise Http404("there is no such account")
    return _do(request, user_id, lambda user: accounts.give_grant(user, source, tables, by=by))


@page(POST, role=ADMIN, of={"grant_id": None})
def take(request: HttpRequest, grant_id: int) -> HttpResponse:
    grant = get_object_or_404(Grant.objects.select_related("user", "group", "source"), pk=grant_id)
    accounts.take_grant(grant)
    return redirect("account", user_id=grant.user_id) if grant.user_id else redirect("accounts")


def _do(request: HttpRequest, user_id: int, act: Any) -> HttpResponse:
    """Do it, then show the account; what was refused is said there."""
    user = _find(user_id)
    try:
        act(user)
    except AccountProblem as problem:
        return _show(request, user, problem=problem)
    publisher().account_changed(user_id)
    key = request.session.session_key
    if user == request.user and (key is None or not request.session.exists(key)):
        # One's own, ended with the rest: nothing of it is to be saved.
        request.session.flush()
    return redirect("account", user_id=user_id)


def _show(
    request: HttpRequest, user: User, *, problem: AccountProblem | None = None
) -> HttpResponse:
    role = role_of(user) if user.is_active else None
    groups = list(user.groups.values_list("name", flat=True))
    group_grants = Grant.objects.select_related("source", "group")
    page = {
        "account": user,
        "role": role.word if role else "",
        "roles": [one.word for one in Role],
        "groups": [name for name in groups if Role.of_word(name) is None],
        "own_grants": user.grants.select_related("source"),
        "group_grants": group_grants.filter(group__name__in=groups),
        "sessions": accounts.sessions_of(user),
        "tokens": user.api_tokens.filter(revoked_at=None).order_by("pk"),
        "failures": AccessAttempt.objects.filter(username=user.get_username()).count(),
        "identities": user.identities.all(),
        "sources": list(Source.objects.values_list("name", flat=True)),
        "problem": problem,
        "now": timezone.now(),
    }
    return render(request, "accounts/account.html", page, status=422 if problem else 200)


def _find(user_id: int) -> User:
    return get_object_or_404(get_user_model(), pk=user_id)


def _role(request: HttpRequest) -> Role | None:
    word = request.POST.get("role", "")
    role = Role.of_word(word)
    if role is None and word:
        raise AccountProblem(f"there is no role {word}", field="role")
    return role


def _rows() -> list[dict[str, Any]]:
    found = users_with_rights().order_by("-is_active", "username")[:_MOST]
    roles = [(user, role_of(user) if user.is_active else None) for user in found]
    return [{"user": user, "role": role.word if role else ""} for user, role in roles]


def _groups() -> list[dict[str, Any]]:
    groups = ensure_roles()
    rows = Group.objects.prefetch_related("grants__source").order_by("name")
    roles = {group.pk: role for role, group in groups.items()}
    found = [{"group": row, "role": roles.get(row.pk), "grants": row.grants.all()} for row in rows]
    return sorted(found, key=lambda one: one["role"] or 9)


def _sentence(rows: list[dict[str, Any]]) -> dict[str, str]:
    admins = sum(1 for row in rows if row["role"] == "admin")
    lacking = sum(1 for row in rows if not row["role"] and row["user"].is_active)
    verb = "has" if lacking == 1 else "have"
    title = f"{plural(lacking, 'account')} {verb} no role yet." if lacking else (
        f"{plural(len(rows), 'account')}.")  # fmt: skip
    return {
        "level": "look" if lacking else "ok",
        "title": title,
        "cause": f"{plural(admins, 'admin')} among them.",
        "next": "Give a role, or close what nobody uses." if lacking else "",
    }


@page(GET_POST, role=EVERYONE, of={"code": None})
@never_cache
@login_not_required
@sensitive_post_parameters()
def setup(request: HttpRequest, code: str) -> HttpResponse:
    """A name and a password; then this browser is signed in."""
    if not is_good(code):
        raise Http404("this address is no longer good")
    errors: dict[str, str] = {}
    name = Params(request.POST).text("name", None, strip=False)
    if request.method == "POST":
        password = request.POST.get("password", "")
        if password != request.POST.get("again", ""):
            errors["again"] = "The two are not the same."
        else:
            try:
                user = first_admin(code, name, password)
            except AccountProblem as problem:
                errors[problem.field] = str(problem)
            else:
                if user is None:
                    raise Http404("this address is no longer good")
                login(request, user, backend=_BACKEND)
                return redirect("overview")
    page = {"errors": errors, "name": name}
    return render(request, "accounts/setup.html", page, status=422 if errors else 200)
