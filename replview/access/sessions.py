"""Ends a login that has lasted too long, or in which nobody has done anything for too long."""

from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth import logout
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin

from replview.access import session_policy
from replview.access.page import page_of


class SessionPolicyMiddleware(MiddlewareMixin):
    """Looks at the session of each request that has one."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Signs out, or notes that somebody is there."""
        if not request.session.session_key or not request.user.is_authenticated:
            return
        # Known once the user was asked for: what a program does with a token is no session's.
        if getattr(request, "replview_token", None):
            return
        if session_policy.is_over(request.session):
            logout(request)
        elif not _by_itself(request):
            session_policy.note_activity(request.session)


def _by_itself(request: HttpRequest) -> bool:
    """Whether the page asked, and not somebody in front of it."""
    match = request.resolver_match
    page = page_of(match.func) if match is not None else None
    if page is not None and page.polled:
        return True
    here = urlsplit(request.headers.get("HX-Current-URL", "")).path
    return request.method == "GET" and here == request.path


@receiver(user_logged_in, dispatch_uid="replview.session_policy")
def _begin(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    session_policy.begin(request.session)
