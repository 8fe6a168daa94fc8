"""The form of a source's address, with an error beside each field, and the connection test."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from replview.acts import sources
from replview.catalog.connections import reading
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_server_facts
from replview.jobs import drafts
from replview.store.dsn import UNUSABLE, conninfo_from, place_of, set_dsn
from replview.store.models import Source, SourceDraft
from replview.ui.sentence import PLACES

FIELDS, STRING = "fields", "string"
#: Values of libpq's ``sslmode`` with their meaning, the default first.
_SSL_MODES = (
    ("prefer", "if the server offers it"),
    ("require", "required, without checking the server"),
    ("verify-ca", "required, certificate checked against an authority"),
    ("verify-full", "required, certificate and host name checked"),
    ("disable", "never: only for private networks"),
)
#: libpq parameter by form field.
_LIBPQ_PARAMETERS = {"host": "host", "port": "port", "database": "dbname", "user": "user",
               "sslmode": "sslmode", "sslrootcert": "sslrootcert"}  # fmt: skip
#: Field beside which a problem is shown, by the problem's code.
_FIELD_OF = {
    "wrong_password": "password",
    "no_such_database": "database",
    "no_such_role": "user",
    "no_login": "user",
    "unknown_host": "host",
    "unreachable": "host",
    "not_allowed": "host",
    "starting_up": "host",
    "tls": "sslmode",
}
_MOST_CHARACTERS = 2000
_PORT_ERROR = "A port is a number from 1 to 65535, usually 5432."
DEADLINE_SECONDS = 10.0


def _text(label: str, help_text: str = "", *, strip: bool = True) -> forms.CharField:
    return forms.CharField(
        label=label, help_text=help_text, max_length=_MOST_CHARACTERS, required=False, strip=strip
    )


class AddressForm(forms.Form):
    """The form of a source's address. A password is accepted, but never shown again."""

    how = forms.ChoiceField(
        choices=((FIELDS, "Field by field"), (STRING, "Connection string")),
        required=False,
        error_messages={"invalid_choice": "Choose how the address is entered."},
    )
    name = _text("Name in replview")
    host = _text("Host", "A name, an address, or the folder of a socket: /var/run/postgresql")
    port = forms.IntegerField(
        label="Port",
        min_value=1,
        max_value=65535,
        required=False,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), _PORT_ERROR),
    )
    database = _text("Database")
    user = _text("User")
    password = _text(
        "Password",
        "Stored encrypted. Or a location, if REPLVIEW_SOURCE_PASSWORDS allows this host: "
        "env:SHOP_PASSWORD",
        strip=False,
    )
    sslmode = forms.ChoiceField(
        label="Encryption (sslmode)",
        choices=[(mode, f"{mode}: {meaning}") for mode, meaning in _SSL_MODES],
        required=False,
        error_messages={"invalid_choice": "This is not an sslmode: choose one."},
    )
    sslrootcert = _text(
        "Certificate authority (sslrootcert)",
        "system: the authorities this machine trusts. Or a file in a folder named by "
        "REPLVIEW_SOURCE_FILES.",
    )
    dsn = _text(
        "Connection string",
        "Also host=… dbname=… user=…, service=shop from a service file, or env:SHOP_DSN from the "
        "environment of replview and its workers.",
    )

    def __init__(self, draft: SourceDraft, data: Mapping[str, Any] | None = None) -> None:
        initial = {"how": FIELDS, "port": 5432, **(draft.answers.get("form") or {})}
        if initial["how"] == STRING:
            initial["dsn"] = draft.conninfo
        super().__init__(data, initial=initial)
        #: True when the password that the draft has is kept if no other is entered.
        self.has_password = bool(draft.sealed_password or draft.password_ref)
        if self.is_bound:
            # Never send a stored password to another server or role than it was entered for.
            parts = {"how", "host", "port", "user", "sslmode", "sslrootcert"}
            is_same_place = not self.is_string and parts.isdisjoint(self.changed_data)
            self.has_password = self.has_password and is_same_place

    @property
    def is_string(self) -> bool:
        """Return whether the connection string counts, and not the single fields."""
        return str(self["how"].value()) == STRING

    @property
    def focus(self) -> str:
        """Return the field that gets the focus: the first to correct, else the first."""
        wrong = (field.name for field in self if field.errors)
        return next(wrong, "dsn" if self.is_string else "host")

    def clean_name(self) -> str:
        """Refuse a name that another source has, or that no source may have."""
        name: str = self.cleaned_data["name"]
        if name and Source.objects.filter(name=name).exists():
            fault = f"there is already a source {name}"
        else:
            fault = sources.name_fault(name) if name else ""
        if fault:
            raise _error_of(SourceProblem("name", fault, "Choose another name"))
        return name

    def clean(self) -> None:
        """Require an address; ignore what was entered in the half of the form that is hidden."""
        hidden = (*_LIBPQ_PARAMETERS, "password") if self.is_string else ("dsn",)
        for name in hidden:
            self.errors.pop(name, None)
        for name in ("dsn",) if self.is_string else ("host", "database", "user"):
            if not self.cleaned_data.get(name) and name not in self.errors:
                cause = f"the {str(self.fields[name].label).lower()} is missing"
                self.add_error(name, _error_of(SourceProblem("needed", cause, "Enter it")))

    def add_problem(self, problem: SourceProblem) -> None:
        """Show a problem beside the field that caused it, else above the form."""
        named = problem.field if problem.field in self.fields else None
        field = "dsn" if self.is_string else _FIELD_OF.get(problem.code, named)
        self.add_error(field, _error_of(problem))

    def kept(self) -> dict[str, object]:
        """Return the values to store and show again, without password and connection string."""
        return {
            "how": STRING if self.is_string else FIELDS,
            **{name: self.cleaned_data.get(name) for name in ("name", *_LIBPQ_PARAMETERS)},
        }

    def address(self) -> tuple[str, str]:
        """Return the DSN and the location of its password (``file:/…`` or ``env:…``, else empty).

        A typed password is part of the DSN; one that was stored before is not.
        """
        if self.is_string:
            return self.cleaned_data["dsn"], ""
        entered = {part: self.cleaned_data[name] for name, part in _LIBPQ_PARAMETERS.items()}
        parameters = {part: str(value) for part, value in entered.items() if value}
        if parameters.get("sslmode") == _SSL_MODES[0][0]:
            del parameters["sslmode"]
        password = self.cleaned_data["password"]
        if password.startswith(("file:/", "env:")):
            return conninfo_from(parameters), password
        if password:
            parameters["password"] = password
        return conninfo_from(parameters), ""


def _error_of(problem: SourceProblem) -> forms.ValidationError:
    """Return the problem as the error of a form, of which the page shows cause and remedy."""
    parts = {"cause": problem.cause, "remedy": problem.remedy}
    return forms.ValidationError("%(cause)s. %(remedy)s", code=problem.code, params=parts)


def _free_name(database: str) -> str:
    """Return a name for a source that no other has, made from the database's name."""
    taken = set(Source.objects.values_list("name", flat=True))
    base_name = "".join(letter for letter in database if letter != "/").strip()[:50] or "source"
    names = [base_name, *(f"{base_name}-{number}" for number in range(2, len(taken) + 2))]
    free = (name for name in names if name not in taken and not sources.name_fault(name))
    return next(free, f"source-{len(taken) + 1}")


@dataclass(frozen=True, slots=True)
class Reached:
    """The server that answered the connection test, and the name its source gets."""

    database: str
    #: Value of ``server_version_num``, for example 160014.
    version: int
    role: str
    system_identifier: str | None
    #: The name the source gets.
    name: str


def connect_draft(form: AddressForm, draft: SourceDraft) -> Reached | None:
    """Connect to the form's address, and write it to the draft without saving the draft.

    Return None if that fails; ``form.errors`` then has the reason.
    """
    if not form.is_valid():
        return None
    keeps_password = form.has_password and not form.cleaned_data["password"]
    password_fields = ("sealed_password", "password_ref") if keeps_password else ()
    former_password = {name: getattr(draft, name) for name in password_fields}
    dsn, reference = form.address()
    try:
        set_dsn(draft, dsn, reference or former_password.get("password_ref", ""),
                has_password=bool(former_password.get("sealed_password")))  # fmt: skip
        draft.sealed_password = former_password.get("sealed_password") or draft.sealed_password
        conninfo = drafts.conninfo_of(draft)
        with reading(conninfo, deadline_seconds=DEADLINE_SECONDS) as connection:
            facts = read_server_facts(connection)
    except SourceProblem as error:
        form.add_problem(error.with_places(PLACES))
        return None
    except UNUSABLE as error:
        remedy = "Correct it" if error.field else "Correct the address"
        form.add_problem(SourceProblem(error.code, str(error), remedy, error.field))
        return None
    return Reached(
        database=facts.database,
        version=facts.version,
        role=facts.role,
        system_identifier=facts.system_identifier,
        name=form.cleaned_data["name"] or _free_name(facts.database),
    )


def known_as(reached: Reached, conninfo: str) -> Source | None:
    """Return the source that is this database already, whatever its role; None if there is none.

    Both system identifier and address must agree: a standby has its primary's identifier, but
    another address.
    """
    if reached.system_identifier is None:
        return None
    same_server = Source.objects.filter(
        system_identifier=reached.system_identifier, ephemeral=False
    )
    return next(
        (source for source in same_server if place_of(source.conninfo) == place_of(conninfo)), None
    )
