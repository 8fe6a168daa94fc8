"""The forms of a source's settings: credentials, address and name."""

from django import forms

from replview.ui.forms import text_field


def _dsn_field(label: str, help_text: str, **attrs: object) -> forms.Field:
    """Return the field of an address, which is hidden, because it may contain a password."""
    attrs = {
        "class": "mono", "spellcheck": "false", "autocomplete": "off",
        "placeholder": "postgresql://user:password@host:5432/database?sslmode=verify-full", **attrs,
    }  # fmt: skip
    return forms.CharField(
        label=label,
        help_text=help_text,
        max_length=4000,
        required=False,
        widget=forms.PasswordInput(attrs=attrs),
    )


class CredentialsForm(forms.Form):
    """The form of new credentials, with the fields of ``Credentials``; a secret is not shown."""

    user = text_field(
        "Role",
        help_text="Empty: keep the role.",
        most=63,
        css="mono",
        placeholder="as before",
        autocapitalize="off",
    )
    password = forms.CharField(
        label="New password",
        help_text="Stored encrypted; never shown again.",
        max_length=1000,
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    password_ref = text_field(
        "Or its location",
        help_text="file:/path (read at each connection) or env:NAME, for replview and its workers. "
        "REPLVIEW_SOURCE_PASSWORDS must allow this host.",
        most=1000,
        css="mono",
        placeholder="file:/run/secrets/shop",
    )
    dsn = _dsn_field(
        "DSN",
        "For the same server and database; also service=NAME, env:VARIABLE, a socket's folder as "
        "host, sslcert and sslkey.",
    )


class MoveForm(forms.Form):
    """The form of another address, which is tested before it is used."""

    dsn = _dsn_field(
        "New address",
        "A libpq connection string, service=NAME or env:VARIABLE. What you type is hidden, because "
        "it may contain a password.",
        required=True,
    )
    password_ref = text_field(
        "Location of the password",
        help_text="Where to read the password if the address contains none: file:/path or "
        "env:NAME. REPLVIEW_SOURCE_PASSWORDS must allow the host.",
        most=1000,
        css="mono",
        placeholder="file:/run/secrets/shop",
    )
    keep_password = forms.BooleanField(required=False)


class RenameForm(forms.Form):
    """The form of a source's new name."""

    name = text_field("New name", most=63, css="mono", required=True)
