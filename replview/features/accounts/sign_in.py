"""The login, and who is kept from trying it again and again.

Failed logins are counted by name and address together, so that nobody can lock out somebody else
from where that person is; and by address alone, higher, against one who tries many names.
"""

import datetime as dt
from typing import Any

from axes.helpers import get_cool_off, get_failure_limit
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.views import LoginView, LogoutView
from django.db.models import Max, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from replview.text.formats import age_words

#: No account's name is longer.
_LONGEST_NAME = 150


def address_of(request: HttpRequest) -> str:
    """Where the request comes from, as the web server says it: headers are not believed here."""
    return str(request.META.get("REMOTE_ADDR") or "")


def locked_until(request: HttpRequest, username: str) -> dt.datetime | None:
    """Until when this name from here, or everything from here, is refused; None: it is not."""
    cool_off = get_cool_off(request)
    if cool_off is None:
        return None
    recent = AccessAttempt.objects.filter(
        ip_address=address_of(request) or None, attempt_time__gt=timezone.now() - cool_off
    )
    for attempts, limit in (
        (recent.filter(username=username), get_failure_limit(request, {"username": username})),
        (recent, settings.LOGIN_FAILURES_OF_ADDRESS),
    ):
        found = attempts.aggregate(failures=Sum("failures_since_start"), last=Max("attempt_time"))
        if (found["failures"] or 0) >= limit and found["last"]:
            until: dt.datetime = found["last"] + cool_off
            return until
    return None


class SignIn(LoginView):
    """Name and password; who failed too often is told when to try again."""

    def get_context_data(self, **kwargs: Any) -> dict[str, object]:
        return {
            **super().get_context_data(**kwargs),
            "single_sign_on": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
            "sso": self.request.GET.get("sso", ""),
            "demo": settings.DEMO,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Try, unless it was tried too often."""
        name = request.POST.get("username", "")[:_LONGEST_NAME]
        # What is counted is as long as what can be kept.
        sent = request.POST.copy()
        sent["username"] = name
        request.POST = sent  # type: ignore[assignment]
        until = locked_until(request, name)
        if until is None:
            answer = super().post(request, *args, **kwargs)
            until = locked_until(request, name) if answer.status_code == 200 else None
            if until is None:
                return answer
        return self._refuse(until)

    def _refuse(self, until: dt.datetime) -> HttpResponse:
        left = until - timezone.now()
        page = self.get_context_data(form=self.get_form_class()(self.request))
        page |= {"locked_for": age_words(left), "username": self.request.POST.get("username", "")}
        retry = {"Retry-After": str(max(1, round(left.total_seconds())))}
        return self.render_to_response(page, status=429, headers=retry)


def leave_nothing(answer: HttpResponse) -> HttpResponse:
    """Have the browser forget what it has of our pages; of its storage only the theme is worth
    keeping, and that stays.
    """
    answer["Clear-Site-Data"] = '"cache"'
    return answer


class SignOut(LogoutView):
    """The end of a session, after which the browser keeps nothing of it."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return leave_nothing(super().dispatch(request, *args, **kwargs))
