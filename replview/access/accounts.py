"""Change accounts, from the admin's pages and from the commands; each change is recorded.

There is always an admin: the last one that can sign in is neither closed nor given another role.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from axes.models import AccessAttempt
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from replview.access.rights import Role, admins, forget_rights, role_of, set_role
from replview.store.models import ApiToken, AssignedPassword, Grant, Source
from replview.store.write.access_record import note
from replview.text.problem import CodedProblem

_CHANGED_SETTINGS = "changed_settings"
_MAX_PATTERNS = 200
#: How long a password that an admin set may be used to sign in.
ASSIGNED_FOR = dt.timedelta(hours=72)


class AccountProblem(CodedProblem):
    """The change of an account is refused; ``field`` names the invalid field of the form."""

    code_of_all = "account"


@transaction.atomic
def create_account(
    name: str, role: Role | None, password: str | None, *, by_owner: bool = False
) -> User:
    """Create an account. Without a password it can only sign in by single sign-on.

    Unless its owner chose the password, it has to be changed at the first sign-in. Raises
    ``AccountProblem``.
    """
    users = get_user_model()
    # Normalize first, because uniqueness is decided on the normalized name.
    name = users.normalize_username(name.strip())
    if not name:
        raise AccountProblem("a name is needed", field="name")
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError as error:
        raise AccountProblem(error.messages[0], field="name") from None
    if len(name) > 150:
        raise AccountProblem("a name has 150 characters at most", field="name")
    if users._default_manager.filter(username__iexact=name).exists():
        raise AccountProblem(f"there is an account {name} already", field="name")
    if password is not None:
        check_password(password, users(username=name))
    user = users._default_manager.create_user(name, password=password)
    if password is not None and not by_owner:
        mark_assigned(user)
    set_role(user, role)
    _note("account created", user, role=role.word if role else "none")
    return user


def check_password(password: str, user: User | None = None) -> None:
    """Raise ``AccountProblem`` where the policy refuses the password."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise AccountProblem(" ".join(error.messages), field="password") from None


@transaction.atomic
def change_role(user: User, role: Role | None) -> None:
    """Give the account this role only. Raises ``AccountProblem`` for the last admin."""
    if role is not Role.ADMIN:
        _refuse_last_admin(user)
    old_role = role_of(user)
    if user.is_superuser and role is not Role.ADMIN:
        user.is_superuser = user.is_staff = False
        user.save(update_fields=["is_superuser", "is_staff"])
    set_role(user, role)
    old_name, new_name = (value.word if value else "none" for value in (old_role, role))
    _note("role changed", user, before=old_name, after=new_name)


@transaction.atomic
def close_account(user: User) -> None:
    """Close the account, end its sessions and revoke its tokens. Raises ``AccountProblem``."""
    _refuse_last_admin(user)
    user.is_active = False
    user.save(update_fields=["is_active"])
    forget_rights(user)
    end_sessions(user)
    _note("account closed", user, tokens_revoked=_revoke_tokens(user))


def open_account(user: User) -> None:
    """Let a closed account sign in again; its tokens stay revoked."""
    user.is_active = True
    user.save(update_fields=["is_active"])
    forget_rights(user)
    _note("account opened", user)


@transaction.atomic
def change_password(user: User, password: str, *, by_owner: bool) -> None:
    """Set a new password, end every session and revoke the tokens.

    Somebody who knew the old password may have made tokens. Unless its owner chose the password, it
    has to be changed at the next sign-in. Raises ``AccountProblem``.
    """
    check_password(password, user)
    user.set_password(password)
    user.save(update_fields=["password"])
    if by_owner:
        AssignedPassword.objects.filter(user=user).delete()
    else:
        mark_assigned(user)
    end_sessions(user)
    _note("password changed", user, tokens_revoked=_revoke_tokens(user))


def mark_assigned(user: User) -> None:
    """Make the account change its password at the next sign-in, which has to be soon."""
    until = timezone.now() + ASSIGNED_FOR
    AssignedPassword.objects.update_or_create(user=user, defaults={"expires_at": until})


def assigned_until(user: User) -> dt.datetime | None:
    """Return when the password that an admin set expires; None: the owner chose it."""
    passwords = AssignedPassword.objects.filter(user=user)
    return passwords.values_list("expires_at", flat=True).first()


def unlock(user: User) -> None:
    """Delete the account's failed logins, so that it can sign in at once."""
    AccessAttempt.objects.filter(username=user.get_username()).delete()
    note("changed_settings", subject=f"account {user}", details={"act": "unlocked"})


def sign_out(user: User) -> int:
    """End every session of the account, and return their number."""
    ended = end_sessions(user)
    _note("signed out everywhere", user, sessions=ended)
    return ended


def sessions_of(user: User) -> list[Session]:
    """Return the account's sessions that have not expired."""
    unexpired = Session.objects.filter(expire_date__gt=timezone.now())
    return [row for row in unexpired if row.get_decoded().get("_auth_user_id") == str(user.pk)]


@transaction.atomic
def give_grant(
    holder: object, source: Source | None, tables: Sequence[str] = (), *, by: str = ""
) -> Grant:
    """Let an account or a group see a source (None: every source) and its tables by pattern.

    No pattern means all tables. It replaces their former grant on the source.
    Raises ``AccountProblem``.
    """
    patterns = read_patterns(tables)
    holder_field = {"group": holder} if isinstance(holder, Group) else {"user": holder}
    Grant.objects.filter(source=source, **holder_field).delete()
    grant = Grant.objects.create(source=source, tables=patterns, created_by=by, **holder_field)
    note(
        _CHANGED_SETTINGS, subject=f"grant to {holder}", source_id=source.pk if source else None,
        details={"act": "granted", "to": str(holder), "source": source.name if source else "*",
                 "tables": patterns or ["*"]},
    )  # fmt: skip
    return grant


def take_grant(grant: Grant) -> None:
    """Revoke a grant of an account or a group."""
    holder = str(grant.user or grant.group)
    source = grant.source.name if grant.source else "*"
    note(
        _CHANGED_SETTINGS, subject=f"grant to {holder}", source_id=grant.source_id,
        details={"act": "revoked", "from": holder, "source": source, "tables": grant.tables},
    )  # fmt: skip
    grant.delete()


def read_patterns(tables: Sequence[str]) -> list[str]:
    """Return patterns of ``schema.table`` with ``*``; empty for all. Raises ``AccountProblem``."""
    patterns = [pattern for text in tables if (pattern := text.strip())]
    for pattern in patterns:
        if "." not in pattern and pattern != "*":
            raise AccountProblem(f"{pattern}: write schema.table, as in public.*", field="tables")
        if len(pattern) > 200:
            raise AccountProblem("a pattern is too long", field="tables")
    if len(patterns) > _MAX_PATTERNS:
        raise AccountProblem(f"{_MAX_PATTERNS} patterns at most", field="tables")
    return [] if "*" in patterns else patterns


def _refuse_last_admin(user: User) -> None:
    # When two admins close each other at once, the second waits for this lock and is refused.
    admin_ids = list(admins().values_list("pk", flat=True))
    locked_accounts = get_user_model()._default_manager.select_for_update().filter(pk__in=admin_ids)
    list(locked_accounts.order_by("pk"))
    if list(admins().values_list("pk", flat=True)) == [user.pk]:
        cause = f"{user.get_username()} is the last admin: make another one first"
        raise AccountProblem(cause, field="role")


def end_sessions(user: User) -> int:
    """End every session of the account without a record of it, and return their number."""
    sessions = sessions_of(user)
    for session in sessions:
        session.delete()
    return len(sessions)


def _revoke_tokens(user: User) -> int:
    return ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())


def _note(act: str, user: User, **extra: Any) -> None:
    name = user.get_username()
    note(
        _CHANGED_SETTINGS, subject=f"account {name}", details={"act": act, "account": name, **extra}
    )
