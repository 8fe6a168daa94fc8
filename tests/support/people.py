"""Accounts for tests, each with a role, and what a page says to one."""

import html
import re
from collections.abc import Sequence

from django.contrib.auth.models import User
from django.test import Client

from replview.access.rights import Role, ensure_roles, set_role
from replview.store.models import Grant, Source


def make_user(
    name: str = "alice",
    role: str | None = "operator",
    *,
    password: str | None = None,
    sources: Sequence[Source] | None = None,
    tables: Sequence[str] = (),
) -> User:
    """An account with this role (None: without one), which sees every source.

    With ``sources`` it sees those alone, and of them the ``tables``: its role's grant on every
    source is taken away, for everybody who has that role.
    """
    groups = ensure_roles()
    user: User = User.objects.create_user(name, password=password)
    chosen = Role.of_word(role) if role else None
    assert role is None or chosen is not None, role
    if chosen is not None:
        set_role(user, chosen)
        if sources is not None:
            Grant.objects.filter(group=groups[chosen]).delete()
    for source in sources or ():
        Grant.objects.create(user=user, source=source, tables=list(tables))
    return user


def said(reader: Client, address: str) -> str:
    """The words of a page, with single spaces."""
    answer = reader.get(address)
    assert answer.status_code == 200, address
    text = html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode()))
    return " ".join(text.split())
