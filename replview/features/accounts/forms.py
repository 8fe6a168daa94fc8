"""The forms of accounts: passwords, codes, tokens, roles and grants.

A password, a code or a name may be empty: its check refuses it, with the rule that it breaks.
"""

import time
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.http import HttpRequest

from replview.access.accounts import AccountProblem, read_patterns
from replview.access.open_sessions import SIGNED_IN_AT
from replview.access.rights import Role, account_of
from replview.access.tokens import scopes_for
from replview.features.accounts.attempts import wrong_code, wrong_password
from replview.store.models import ApiToken
from replview.ui.forms import SourceField, error_sentence, text_field

_MAX_TOKEN_DAYS = 3650
_DAYS_ERROR = f"Days from 1 to {_MAX_TOKEN_DAYS}, or empty."
_NAME_NEEDED = "Enter a name, such as the program that uses the token."
#: The error of a token whose name another token has.
NAME_TAKEN = "A token with this name exists already."
#: Seconds since the sign-in within which an account without a password here may end a session.
_RECENT_SIGN_IN_SECONDS = 600
_SIGN_IN_AGAIN = "Sign in again first: your last sign-in is too long ago."
_ROLES = [(role.word, role.word) for role in Role]
_SCOPE_TEXTS = {
    "metrics": "read /metrics, of every source",
    "read": "read all that this account may see",
    "export": "read, and create exports",
    "operate": "read and change all that this account may",
}


def _password_field(label: str, autocomplete: str = "new-password", **attrs: object) -> forms.Field:
    attrs = {"autocomplete": autocomplete, "required": True, **attrs}
    return forms.CharField(
        label=label, required=False, strip=False, widget=forms.PasswordInput(attrs=attrs)
    )


def _code_field(label: str, **attributes: Any) -> forms.Field:
    return text_field(
        label,
        autocomplete="one-time-code",
        inputmode="numeric",
        maxlength=64,
        required=True,
        **attributes,
    )


def _account_name_field(label: str, **attributes: Any) -> forms.Field:
    return text_field(label, autocapitalize="none", maxlength=150, required=True, **attributes)


class CurrentPasswordForm(forms.Form):
    """A form that needs the current password of the account that is signed in."""

    #: Format of the inputs' ids, which has to differ where a page has several such forms.
    ids = "id_%s"
    old = _password_field("Current password", "current-password")

    def __init__(self, request: HttpRequest, data: Mapping[str, Any] | None = None) -> None:
        self.request = request
        super().__init__(data, auto_id=self.ids)

    def clean_old(self) -> str:
        """Return the password if it is right; a wrong one counts as a failed login."""
        password: str = self.cleaned_data["old"]
        if refusal := wrong_password(self.request, account_of(self.request), password):
            raise forms.ValidationError(refusal)
        return password


class NewPasswordForm(forms.Form):
    """The form of a new password, which is typed twice."""

    password = _password_field("New password", maxlength=200)
    again = _password_field("Repeat it", maxlength=200)

    def clean(self) -> None:
        """Refuse two different passwords."""
        data = self.cleaned_data
        if "password" in data and data["password"] != data["again"]:
            self.add_error("again", "The two passwords differ.")


class ReplacingPasswordForm(NewPasswordForm):
    """The form of a user's own password, in place of one that an admin set."""

    password = _password_field("New password", maxlength=200, autofocus=True)

    def __init__(self, user: User, data: Mapping[str, Any] | None = None) -> None:
        self.user = user
        super().__init__(data)

    def clean_password(self) -> str:
        """Return the password, unless the admin knows it."""
        password: str = self.cleaned_data["password"]
        if self.user.check_password(password):
            raise forms.ValidationError("An admin knows this password. Choose another one.")
        return password


class OwnPasswordForm(NewPasswordForm, CurrentPasswordForm):
    """The form with which a user changes the password."""


class EndSessionForm(CurrentPasswordForm):
    """The form that ends another session of the user.

    An account without a password must have signed in lately.
    """

    def __init__(
        self, request: HttpRequest, name: str, data: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self.ids = f"session_{name}_%s"
        super().__init__(request, data)

    def clean_old(self) -> str:
        """Return the password if it is right; empty for an account without one."""
        if account_of(self.request).has_usable_password():
            return super().clean_old()
        began_at = int(self.request.session.get(SIGNED_IN_AT) or 0)
        if time.time() - began_at > _RECENT_SIGN_IN_SECONDS:
            raise forms.ValidationError(_SIGN_IN_AGAIN)
        return ""


class SetupForm(NewPasswordForm):
    """The form that creates the first admin."""

    name = _account_name_field("User name", autocomplete="username", autofocus=True)
    field_order = ("name", "password", "again")


class LoginCodeForm(forms.Form):
    """The form of a code of the authenticator app, or a recovery code, after the password."""

    code = _code_field("Code", autofocus=True)

    def __init__(
        self, request: HttpRequest, user: User, data: Mapping[str, Any] | None = None
    ) -> None:
        self.request, self.user = request, user
        super().__init__(data)
        self.fields["code"].help_text = (
            f"Six digits that the authenticator app shows now for {user.get_username()}. Without "
            "the app, enter one of the recovery codes; an admin can remove the second factor."
        )

    def clean_code(self) -> str:
        """Return the code if it is right, and use it up; a wrong one counts as a failed login."""
        code: str = self.cleaned_data["code"]
        if refusal := wrong_code(self.request, self.user, code):
            raise forms.ValidationError(refusal)
        return code


class FirstCodeForm(forms.Form):
    """The form of the first code of an authenticator app, in a sign-in."""

    code = _code_field("Code that the app shows now")


class SecondFactorForm(FirstCodeForm, CurrentPasswordForm):
    """The form that sets up the second factor of the user's own account."""


class SecondFactorOffForm(CurrentPasswordForm):
    """The form that turns the second factor off."""

    ids = "factor_%s"
    code = _code_field("Code of the app, or a recovery code")

    def clean_code(self) -> str:
        """Return the code if it is right, and use it up, unless the password was wrong."""
        code: str = self.cleaned_data["code"]
        if "old" in self.cleaned_data and (
            refusal := wrong_code(self.request, account_of(self.request), code)
        ):
            raise forms.ValidationError(refusal)
        return code


class TokenForm(forms.Form):
    """The form of a new token of the user."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        error_messages={"required": _NAME_NEEDED},
        widget=forms.TextInput(attrs={"placeholder": "such as nightly-export"}),
    )
    scope = forms.ChoiceField(
        label="Scope",
        choices=ApiToken.Scope.choices,
        initial=ApiToken.Scope.READ,
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose a scope."),
        widget=forms.Select(attrs={"class": "field"}),
    )
    days = forms.IntegerField(
        label="Valid for days",
        min_value=1,
        max_value=_MAX_TOKEN_DAYS,
        required=False,
        initial=90,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), _DAYS_ERROR),
        widget=forms.TextInput(attrs={"inputmode": "numeric", "maxlength": 4}),
    )

    def __init__(self, user: User, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.user = user
        #: Scopes that the user's rights allow: (value, words). The others are refused with why.
        self.scopes = [(scope.value, _SCOPE_TEXTS[scope.value]) for scope in scopes_for(user)]
        select = self.fields["scope"].widget
        assert isinstance(select, forms.Select)
        select.choices = self.scopes

    def clean_name(self) -> str:
        """Return the name, unless a token that is not revoked has it."""
        name: str = self.cleaned_data["name"]
        if self.user.api_tokens.filter(name=name, revoked_at=None).exists():
            raise forms.ValidationError(NAME_TAKEN)
        return name


class RoleForm(forms.Form):
    """The form of an account's role; empty: none."""

    role = forms.TypedChoiceField(
        choices=[("", "none"), *_ROLES],
        coerce=Role.of_word,
        empty_value=None,
        required=False,
        error_messages={"invalid_choice": "There is no role %(value)s."},
        widget=forms.Select(attrs={"class": "field", "aria-label": "Role"}),
    )


class AssignedPasswordForm(forms.Form):
    """The form with which an admin sets an account's password."""

    password = _password_field("New password", maxlength=200)


class NewAccountForm(forms.Form):
    """The form of a new account."""

    name = _account_name_field("Name")
    role = forms.TypedChoiceField(
        label="Role",
        help_text="A viewer reads; an operator also manages slots, exports and alerts; an admin "
        "may do everything.",
        choices=_ROLES,
        coerce=Role.of_word,
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose a role."),
        widget=forms.Select(attrs={"class": "field"}),
    )
    password = forms.CharField(
        label="Password",
        help_text="Its owner has to change it at the first sign-in, within 72 hours. Empty: single "
        "sign-on only.",
        required=False,
        strip=False,
        empty_value=None,
        widget=forms.PasswordInput(attrs={"maxlength": 200, "autocomplete": "new-password"}),
    )


class GrantForm(forms.Form):
    """The form of a grant for an account or, without one, for a group."""

    user = forms.ModelChoiceField(User.objects.all(), required=False, widget=forms.HiddenInput)
    group = text_field("Group", most=150, required=True, list="groups")
    source = SourceField()
    tables = text_field(
        "Tables",
        help_text="* matches anything; empty: all tables.",
        most=4000,
        css="mono",
        placeholder="public.*, sales.orders",
    )

    def clean_tables(self) -> list[str]:
        """Return the patterns; none for all tables."""
        text: str = self.cleaned_data["tables"]
        try:
            return read_patterns(text.replace(",", "\n").splitlines())
        except AccountProblem as problem:
            raise forms.ValidationError(error_sentence(problem)) from None

    def clean(self) -> None:
        """Refuse a grant for nobody."""
        if not self.cleaned_data.get("user") and not self.cleaned_data.get("group"):
            self.add_error("group", "Name a group.")
