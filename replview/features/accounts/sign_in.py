"""The login and the logout."""

import datetime as dt
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from replview.access.accounts import assigned_until
from replview.features.accounts.attempts import locked_until
from replview.features.accounts.sign_in_steps import begin
from replview.store.write.access_record import Action, note
from replview.text.formats import age_words

#: Maximum length of an account's name.
_LONGEST_NAME = 150


class SignInForm(AuthenticationForm):
    """The form of the login, which refuses a password that an admin set too long ago."""

    def confirm_login_allowed(self, user: User) -> None:
        """Raise ``ValidationError`` where the account is closed or its password has expired."""
        super().confirm_login_allowed(user)
        until = assigned_until(user)
        if until is not None and until <= timezone.now():
            note(Action.SIGN_IN_FAILED, user=user, details={"why": "password expired"})
            raise ValidationError(
                "The password that an admin set has expired. Ask an admin to set another one."
            )


class SignIn(LoginView):
    """The login page; after too many failed attempts it says when to try again."""

    authentication_form = SignInForm

    def get_context_data(self, **kwargs: Any) -> dict[str, object]:
        """Add single sign-on and the demo to the template's context."""
        return {
            **super().get_context_data(**kwargs),
            "single_sign_on": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
            "sso": self.request.GET.get("sso", ""),
            "late": "late" in self.request.GET,
            "demo": settings.DEMO,
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Log in, unless there were too many failed attempts."""
        name = request.POST.get("username", "")[:_LONGEST_NAME]
        # Cut the name to the length that the count of failures can store.
        params = request.POST.copy()
        params["username"] = name
        request.POST = params  # type: ignore[assignment]
        until = locked_until(request, name)
        if until is None:
            response = super().post(request, *args, **kwargs)
            until = locked_until(request, name) if response.status_code == 200 else None
            if until is None:
                return response
        return self._refuse(until)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign the account in, or go on to the next step."""
        user = form.get_user()
        assert isinstance(user, User)
        return begin(self.request, user, self.get_success_url())

    def _refuse(self, until: dt.datetime) -> HttpResponse:
        wait = until - timezone.now()
        page = self.get_context_data(form=self.get_form_class()(self.request))
        page |= {"locked_for": age_words(wait), "username": self.request.POST.get("username", "")}
        headers = {"Retry-After": str(max(1, round(wait.total_seconds())))}
        return self.render_to_response(page, status=429, headers=headers)


def leave_nothing(response: HttpResponse) -> HttpResponse:
    """Make the browser clear its cache of our pages; its storage has only the theme, and stays."""
    response["Clear-Site-Data"] = '"cache"'
    return response


class SignOut(LogoutView):
    """The view that ends a session, after which the browser keeps nothing of it."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Sign out, and clear the browser's cache."""
        return leave_nothing(super().dispatch(request, *args, **kwargs))
