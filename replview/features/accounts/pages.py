"""The contents of the account pages: all accounts, one account, and the user's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from axes.models import AccessAttempt
from django import forms
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from replview.access import accounts
from replview.access.accounts import AccountProblem
from replview.access.open_sessions import OpenSession, open_sessions
from replview.access.rights import (
    Role,
    account_of,
    ensure_roles,
    role_of,
    table_patterns,
    users_with_rights,
    visible_sources,
)
from replview.features.accounts.forms import (
    AssignedPasswordForm,
    EndSessionForm,
    GrantForm,
    NewAccountForm,
    OwnPasswordForm,
    RoleForm,
    SecondFactorOffForm,
    TokenForm,
)
from replview.store.models import ApiToken, Grant, SecondFactor
from replview.text.formats import plural
from replview.ui.sentence import Sentence

_MOST_ACCOUNTS = 500


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account in the list, with its role."""

    user: User
    #: Empty for an account that has no role, or is closed.
    role: str


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list, with its role and grants."""

    group: Group
    #: The role that the group stands for; None for any other group.
    role: Role | None
    grants: Sequence[Grant]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsPage:
    """All accounts and groups, and the forms that create an account and a group's grant."""

    rows: list[AccountRow]
    groups: list[GroupRow]
    sentence: Sentence
    form: NewAccountForm
    grant_form: GrantForm


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPage:
    """One account, with what an admin may change about it."""

    account: User
    sentence: Sentence
    #: Empty for an account that has no role, or is closed.
    role: str
    #: Groups of the account that stand for no role.
    groups: list[str]
    own_grants: list[Grant]
    group_grants: list[Grant]
    sessions: list[Session]
    #: Tokens that are not revoked.
    tokens: list[ApiToken]
    #: Number of records of failed logins with the account's name.
    failures: int
    #: Time at which the password that an admin set expires; None: the owner chose it.
    assigned_until: datetime | None
    second_factor: SecondFactor | None
    #: OpenID Connect issuers that the account signs in with.
    issuers: list[str]
    role_form: RoleForm
    password_form: AssignedPasswordForm
    grant_form: GrantForm
    #: The reason why the last request without a form was refused, or None.
    problem: AccountProblem | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPage:
    """The page of the user's own account."""

    sentence: Sentence
    #: True when the account sees every source and all tables.
    everything: bool
    grants: list[Grant]
    #: Tokens that are not revoked.
    tokens: list[ApiToken]
    token_form: TokenForm
    #: The user's sessions, each with the form that ends it.
    sessions: list[tuple[OpenSession, EndSessionForm]]
    has_password: bool
    password_form: OwnPasswordForm
    second_factor: SecondFactor | None
    second_factor_form: SecondFactorOffForm
    #: The token that was just created, and its secret, shown once.
    made: ApiToken | None
    token: str
    now: datetime


def build_own_page(
    request: HttpRequest,
    *,
    refused: forms.Form | None = None,
    made: ApiToken | None = None,
    token: str = "",
) -> OwnPage:
    """Read what the account's own page shows; ``refused`` is a form that was refused."""
    user = account_of(request)
    sessions = open_sessions(user, request.session.session_key)
    return OwnPage(
        sentence=_own_sentence(user),
        everything=visible_sources(user) is None and table_patterns(user) is None,
        grants=list(user.grants.select_related("source")),
        tokens=list(user.api_tokens.filter(revoked_at=None).order_by("pk")),
        token_form=refused if isinstance(refused, TokenForm) else TokenForm(user),
        sessions=[(session, _end_form(request, session.name, refused)) for session in sessions],
        has_password=user.has_usable_password(),
        password_form=refused if isinstance(refused, OwnPasswordForm) else OwnPasswordForm(request),
        second_factor=SecondFactor.objects.filter(user=user).first(),
        second_factor_form=refused
        if isinstance(refused, SecondFactorOffForm)
        else SecondFactorOffForm(request),
        made=made,
        token=token,
        now=timezone.now(),
    )


def _end_form(request: HttpRequest, name: str, refused: forms.Form | None) -> EndSessionForm:
    if isinstance(refused, EndSessionForm) and refused.name == name:
        return refused
    return EndSessionForm(request, name)


def _own_sentence(user: User) -> Sentence:
    role = role_of(user)
    if role is None:
        return Sentence(level="look", title="Your account has no role yet.", next="Ask an admin.")
    return Sentence(level="ok", title=f"{user.get_username()}, you have the role {role.word}.")


def build_accounts_page(refused: forms.Form | None = None) -> AccountsPage:
    """Read the accounts and groups; ``refused`` is a form that was refused."""
    rows = _account_rows()
    return AccountsPage(
        rows=rows,
        groups=_group_rows(),
        sentence=_accounts_sentence(rows),
        form=refused if isinstance(refused, NewAccountForm) else NewAccountForm(),
        grant_form=refused if isinstance(refused, GrantForm) else GrantForm(),
    )


def build_account_page(
    user: User, *, refused: forms.Form | None = None, problem: AccountProblem | None = None
) -> AccountPage:
    """Read what the page of one account shows; ``refused`` is a form that was refused."""
    account_role = role_of(user) if user.is_active else None
    role = account_role.word if account_role else ""
    groups = list(user.groups.values_list("name", flat=True))
    group_grants = Grant.objects.select_related("source", "group")
    return AccountPage(
        account=user,
        sentence=_account_sentence(user, role),
        role=role,
        groups=[name for name in groups if Role.of_word(name) is None],
        own_grants=list(user.grants.select_related("source")),
        group_grants=list(group_grants.filter(group__name__in=groups)),
        sessions=accounts.sessions_of(user),
        tokens=list(user.api_tokens.filter(revoked_at=None).order_by("pk")),
        failures=AccessAttempt.objects.filter(username=user.get_username()).count(),
        assigned_until=accounts.assigned_until(user),
        second_factor=SecondFactor.objects.filter(user=user).first(),
        issuers=[identity.issuer for identity in user.identities.all()],
        role_form=refused if isinstance(refused, RoleForm) else RoleForm(initial={"role": role}),
        password_form=refused
        if isinstance(refused, AssignedPasswordForm)
        else AssignedPasswordForm(),
        grant_form=refused if isinstance(refused, GrantForm) else GrantForm(initial={"user": user}),
        problem=problem,
        now=timezone.now(),
    )


def _account_sentence(user: User, role: str) -> Sentence:
    name = user.get_username()
    if not user.is_active:
        cause = "It cannot sign in, and its tokens are revoked."
        return Sentence(level="idle", title=f"{name} is closed.", cause=cause)
    if role:
        return Sentence(level="ok", title=f"{name} has the role {role}.")
    title = f"{name} has no role and sees nothing."
    return Sentence(level="look", title=title, next="give it a role.")


def _account_rows() -> list[AccountRow]:
    users = users_with_rights().order_by("-is_active", "username")[:_MOST_ACCOUNTS]
    roles = [(user, role_of(user) if user.is_active else None) for user in users]
    return [AccountRow(user, role.word if role else "") for user, role in roles]


def _group_rows() -> list[GroupRow]:
    roles = {group.pk: role for role, group in ensure_roles().items()}
    groups = Group.objects.prefetch_related("grants__source").order_by("name")
    rows = [GroupRow(group, roles.get(group.pk), list(group.grants.all())) for group in groups]
    return sorted(rows, key=lambda row: row.role or 9)


def _accounts_sentence(rows: list[AccountRow]) -> Sentence:
    admins = sum(1 for row in rows if row.role == Role.ADMIN.word)
    lacking = sum(1 for row in rows if not row.role and row.user.is_active)
    verb = "has" if lacking == 1 else "have"
    title = f"{plural(len(rows), 'account')}."
    return Sentence(
        level="look" if lacking else "ok",
        title=f"{plural(lacking, 'account')} {verb} no role yet." if lacking else title,
        cause=f"{plural(admins, 'admin')} among them.",
        next="give each a role, or close unused accounts." if lacking else "",
    )
