"""Refusing: what a page says to somebody who lacks the role, and who could give it."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from replview.access.rights import Role, admins, role_of, sees_source
from replview.store.models import Source

#: Admins named on the page; there may be many.
_NAMED = 5


class NeedsRole(PermissionDenied):
    """Somebody lacks a role; ``role`` None: the account has none at all."""

    def __init__(self, role: Role | None, why: str = "") -> None:
        super().__init__(why or (f"this needs the role {role.word}" if role else "no role"))
        self.role, self.why = role, why


def require(request: HttpRequest, role: Role, source: Source | int | None = None) -> None:
    """Go on only with the role, and a grant on the source where one is named.

    Raises ``Http404`` for a source that this account does not see, and else ``NeedsRole``.
    """
    if source is not None:
        source_id = source if isinstance(source, int) else source.pk
        if not sees_source(request.user, source_id):
            raise Http404("there is no such source")
    has = role_of(request.user)
    if has is None or has < role:
        raise NeedsRole(role if has is not None else None)


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    """The answer to a refusal: which role it needs, which one has, and who can give it."""
    role = getattr(exception, "role", None)
    why = getattr(exception, "why", "")
    has = role_of(getattr(request, "user", None))
    if request.path_info.startswith("/api/"):
        return JsonResponse(_as_json(role, has, why), status=403)
    page = {
        "needed": role.word if role else "",
        "has": has.word if has else "",
        "why": why,
        "admins": list(admins().values_list("username", flat=True)[: _NAMED + 1]),
        "named": _NAMED,
    }
    return render(request, "accounts/refused.html", page, status=403)


def _as_json(role: Role | None, has: Role | None, why: str) -> dict[str, str]:
    error = why or (f"this needs the role {role.word}" if role else "this is not allowed")
    if not why and role is not None and has is not None:
        error += f"; yours is {has.word}"
    if has is None:
        error = "this account has no role"
    return {"error": error, "remedy": "ask an admin of this replview"}
