"""The rights of an account: a role, and grants on sources and their tables.

The role is a group of Django's: ``viewer``, ``operator`` or ``admin``; a superuser is an admin. An
admin sees everything. Other accounts see the sources of their own grants and of the grants of
their groups. A plain install grants each role every source (``ensure_roles``); removing that
grant makes rights explicit.

One query reads them, or none where ``users_with_rights`` loaded the account, as the
authentication backend does. They are cached on the user's object, which usually lives as long as a
request. Where it lives longer (a socket, a download) they are read again after some seconds.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import models
from django.db.models.expressions import RawSQL
from django.http import HttpRequest

from replview.store.models import Grant, Source

#: The account of a request; anonymous where nobody has signed in; None without a request.
Visitor = User | AnonymousUser | None

#: Seconds after which cached rights are read again.
FRESH_SECONDS = 5.0

#: The attribute of a user's object that caches (monotonic time of expiry, rights).
_CACHE_ATTRIBUTE = "replview_rights"
#: Groups and grants of the ``auth_user`` row of the surrounding query.
_RIGHTS_SQL = """
jsonb_build_object(
    'active', auth_user.is_active,
    'superuser', auth_user.is_superuser,
    'groups', (
        SELECT jsonb_agg(g.name) FROM auth_user_groups m JOIN auth_group g ON g.id = m.group_id
         WHERE m.user_id = auth_user.id),
    'grants', (
        SELECT jsonb_agg(jsonb_build_array(r.source_id, to_jsonb(r.tables))) FROM rights_grant r
         WHERE r.user_id = auth_user.id OR r.group_id IN (
            SELECT m.group_id FROM auth_user_groups m WHERE m.user_id = auth_user.id)))
"""
#: Rows in the form that ``mask_rules.rules_of_rows`` takes.
_RULES_SQL = """
(SELECT coalesce(jsonb_agg(jsonb_build_array(m.id, m.source_id, m.table_pattern, m.column_pattern,
                                             m.type_pattern, m."when") ORDER BY m.id), '[]')
   FROM mask_rule m)
"""


class Role(IntEnum):
    """A role. Each one may do all that the lower ones may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Return the role's name, ``viewer``, which is also the name of its group."""
        return self.name.lower()

    @classmethod
    def of_word(cls, word: str) -> "Role | None":
        """Return the role of this name; None where there is none."""
        return next((role for role in cls if role.word == word), None)


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one account at the time when they were read."""

    role: Role | None
    #: Source (None for every one) and patterns of tables (none for all tables).
    grants: tuple[tuple[int | None, tuple[str, ...]], ...] = ()


NOTHING = Rights(None)


def users_with_rights() -> models.QuerySet[Any]:
    """Return accounts annotated with their rights and the mask rules, in one query.

    ``access.visibility`` needs both on every page.
    """
    rights = RawSQL(_RIGHTS_SQL, (), output_field=models.JSONField())
    rules = RawSQL(_RULES_SQL, (), output_field=models.JSONField())
    return get_user_model()._default_manager.annotate(read_rights=rights, read_rules=rules)


def rights_of(user: Visitor) -> Rights:
    """Return the account's rights; ``NOTHING`` where it is anonymous or closed."""
    if user is None or not user.is_authenticated or not user.is_active:
        return NOTHING
    expires_at, rights = getattr(user, _CACHE_ATTRIBUTE, (0.0, None))
    now = time.monotonic()
    if rights is None or now >= expires_at:
        rights = _loaded_rights(user) if rights is None else _query_rights(user)
        setattr(user, _CACHE_ATTRIBUTE, (now + FRESH_SECONDS, rights))
    return rights


def account_of(request: HttpRequest) -> User:
    """Return the account of a request, for views that need a login."""
    user = request.user
    assert isinstance(user, User)
    return user


def forget_rights(user: User) -> None:
    """Make the next check of the account read its rights again."""
    for name in (_CACHE_ATTRIBUTE, "read_rights"):
        if name in user.__dict__:
            delattr(user, name)


def role_of(user: Visitor) -> Role | None:
    """Return the account's role; None where it has none and may do nothing."""
    return rights_of(user).role


def may(user: Visitor, role: Role, source_id: int | None = None) -> bool:
    """Return whether the account has the role, and a grant on the source if one is given."""
    user_role = role_of(user)
    if user_role is None or user_role < role:
        return False
    return source_id is None or sees_source(user, source_id)


def visible_sources(user: Visitor) -> frozenset[int] | None:
    """Return the ids of the sources that the account may see; None for all of them."""
    rights = rights_of(user)
    if rights.role is None:
        return frozenset()
    if rights.role is Role.ADMIN or any(source is None for source, _ in rights.grants):
        return None
    return frozenset(source for source, _ in rights.grants if source is not None)


def sees_source(user: Visitor, source_id: int | None) -> bool:
    """Return whether the account may see the source; None needs a right on all sources."""
    visible = visible_sources(user)
    return visible is None or source_id in visible


def table_patterns(user: Visitor) -> Mapping[int, tuple[str, ...]] | None:
    """Return the patterns of the tables whose rows the account may see, by source.

    None means all tables of all sources. A missing source means no table. ``*`` is every table.
    """
    rights = rights_of(user)
    if rights.role is None:
        return {}
    if rights.role is Role.ADMIN:
        return None
    everywhere = _patterns(rights.grants, None)
    if "*" in everywhere:
        return None
    source_ids = {source for source, _ in rights.grants if source is not None}
    if everywhere:
        source_ids |= set(Source.objects.values_list("pk", flat=True))
    return {source: (*everywhere, *_patterns(rights.grants, source)) for source in source_ids}


def ensure_roles() -> dict[Role, Group]:
    """Return the groups of the roles, made where missing with a grant on every source."""
    groups = {}
    for role in Role:
        group, created = Group.objects.get_or_create(name=role.word)
        if created and role is not Role.ADMIN:
            Grant.objects.create(group=group)
        groups[role] = group
    return groups


def set_role(user: User, role: Role | None) -> None:
    """Give the account this role only, or none."""
    groups = ensure_roles()
    user.groups.remove(*[group for group_role, group in groups.items() if group_role is not role])
    if role is not None:
        user.groups.add(groups[role])
    forget_rights(user)


def admins() -> models.QuerySet[Any]:
    """Return the open accounts with the role of an admin."""
    is_admin = models.Q(is_superuser=True) | models.Q(groups__name=Role.ADMIN.word)
    accounts = get_user_model()._default_manager.filter(is_admin, is_active=True)
    return accounts.distinct().order_by("username")


def _patterns(
    grants: Sequence[tuple[int | None, tuple[str, ...]]], source: int | None
) -> tuple[str, ...]:
    """Return the patterns granted on this source; a grant without patterns means ``*``."""
    pattern_lists = [tables or ("*",) for granted, tables in grants if granted == source]
    return tuple(dict.fromkeys(pattern for tables in pattern_lists for pattern in tables))


def _loaded_rights(user: User | AnonymousUser) -> Rights:
    """Return the rights that the object carries; query them where it carries none."""
    if user.is_superuser:
        return Rights(Role.ADMIN)
    document = getattr(user, "read_rights", None)
    return _query_rights(user) if document is None else _parse_rights(document)


def _query_rights(user: User | AnonymousUser) -> Rights:
    documents = users_with_rights().filter(pk=user.pk).values_list("read_rights", flat=True)
    return _parse_rights(documents.first() or {})


def _parse_rights(document: Mapping[str, Any]) -> Rights:
    if not document.get("active"):
        return NOTHING
    if document["superuser"]:
        return Rights(Role.ADMIN)
    roles = [Role.of_word(name) for name in document.get("groups") or ()]
    role = max((role for role in roles if role is not None), default=None)
    grants = tuple((source, tuple(tables)) for source, tables in document.get("grants") or ())
    return Rights(role, grants)


class RightsBackend(ModelBackend):
    """The authentication backend with names and passwords, which loads accounts with rights."""

    def get_user(self, user_id: int) -> User | None:
        """Return the account of a session; None where it was deleted or closed."""
        user = users_with_rights().filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None
