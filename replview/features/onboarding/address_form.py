"""The form of a source's address, with an error beside each field, and the connection test."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replview.acts import sources
from replview.catalog.connections import reading
from replview.catalog.problems import SourceProblem
from replview.catalog.server import read_server_facts
from replview.jobs import drafts
from replview.store.dsn import UNUSABLE, conninfo_from, place_of, set_dsn
from replview.store.models import Source, SourceDraft
from replview.text.parsing import whole_number
from replview.ui.params import Params
from replview.ui.sentence import PLACES

FIELDS, STRING = "fields", "string"
#: Values of libpq's ``sslmode`` with their meaning, the default first.
SSL_MODES = (
    ("prefer", "if the server offers it"),
    ("require", "required, without checking the server"),
    ("verify-ca", "required, certificate checked against an authority"),
    ("verify-full", "required, certificate and host name checked"),
    ("disable", "never: only for private networks"),
)
#: libpq parameter by form field.
_LIBPQ_PARAMETERS = {"host": "host", "port": "port", "database": "dbname", "user": "user",
               "sslmode": "sslmode", "sslrootcert": "sslrootcert"}  # fmt: skip
_TEXT_FIELDS = ("name", "how", *_LIBPQ_PARAMETERS, "dsn")
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
#: Fields that the error of a DSN can name.
_DSN_FIELDS = ("host", "password", "sslrootcert")
_MOST_CHARACTERS = 2000
DEADLINE_SECONDS = 10.0


@dataclass
class AddressForm:
    """The values and errors of the form. A password is accepted, but never shown again."""

    values: dict[str, str] = field(default_factory=dict)
    #: Problem by field; ``""`` stands for no field.
    errors: dict[str, SourceProblem] = field(default_factory=dict)
    #: True when the draft has a stored password.
    has_password: bool = False
    password: str = field(default="", repr=False)
    ssl_modes = SSL_MODES

    @property
    def how(self) -> str:
        """Return which half of the form counts: ``FIELDS`` or ``STRING``."""
        return self.values.get("how") or FIELDS

    @property
    def sslmode(self) -> str:
        """Return the chosen ``sslmode``, or the first of ``SSL_MODES``."""
        return self.values.get("sslmode") or SSL_MODES[0][0]

    def trouble(self, trouble: SourceProblem) -> None:
        """Show a problem beside the field that caused it."""
        named = trouble.field if trouble.field in _DSN_FIELDS else ""
        field_name = "dsn" if self.how == STRING else _FIELD_OF.get(trouble.code, named)
        self.errors["name" if trouble.code == "name" else field_name] = trouble

    @property
    def general(self) -> SourceProblem | None:
        """Return the problem that belongs to no field, if there is one."""
        return self.errors.get("")

    @property
    def first_wrong(self) -> str:
        """Return the first field with an error, which gets the focus; empty if there is none."""
        order = ("name", "host", "port", "database", "user", "password", "sslmode", "sslrootcert",
                 "dsn")  # fmt: skip
        return next((name for name in order if name in self.errors), "")

    def kept(self) -> dict[str, str]:
        """Return the values to store and show again, without password and connection string."""
        values = {name: value for name, value in self.values.items() if name != "dsn"}
        return {**values, "how": self.how}


def read_form(data: Mapping[str, object], former: AddressForm | None = None) -> AddressForm:
    """Read the form, and report the errors that are found without asking the server."""
    params = Params(data)
    form = AddressForm({name: params.text(name, _MOST_CHARACTERS) for name in _TEXT_FIELDS})
    form.password = params.text("password", _MOST_CHARACTERS, strip=False)
    # Never send a stored password to another server or role than it was entered for.
    parts = ("how", "host", "port", "user", "sslmode", "sslrootcert")
    form.has_password = (
        former is not None
        and former.has_password
        and form.how == FIELDS
        and all(form.values.get(part, "") == former.values.get(part, "") for part in parts)
    )
    if form.how == FIELDS:
        _check_fields(form)
    elif not form.values["dsn"]:
        missing = "the connection string is missing"
        form.errors["dsn"] = SourceProblem("needed", missing, "Enter one")
    return form


def dsn_of(form: AddressForm) -> tuple[str, str]:
    """Return the DSN and the reference to its password (``file:/…`` or ``env:…``, else empty).

    A typed password is part of the DSN; one that was stored before is not.
    """
    if form.how == STRING:
        return form.values["dsn"], ""
    entered = {parameter: form.values.get(name) for name, parameter in _LIBPQ_PARAMETERS.items()}
    parameters = {parameter: value for parameter, value in entered.items() if value}
    if parameters.get("sslmode") == SSL_MODES[0][0]:
        del parameters["sslmode"]
    if form.password.startswith(("file:/", "env:")):
        return conninfo_from(parameters), form.password
    if form.password:
        parameters["password"] = form.password
    return conninfo_from(parameters), ""


def name_of(form: AddressForm, database: str) -> str:
    """Return the name that was entered, else a free one made from the database's name."""
    if form.values.get("name"):
        return form.values["name"]
    taken = set(Source.objects.values_list("name", flat=True))
    base_name = "".join(letter for letter in database if letter != "/").strip()[:50] or "source"
    names = [base_name, *(f"{base_name}-{number}" for number in range(2, len(taken) + 2))]
    free = (name for name in names if name not in taken and not sources.name_fault(name))
    return next(free, f"source-{len(taken) + 1}")


def name_fault(name: str) -> str:
    """Return why a source cannot have this name; empty if it can, or if no name was entered."""
    if not name:
        return ""
    if Source.objects.filter(name=name).exists():
        return f"there is already a source {name}"
    return sources.name_fault(name)


def _check_fields(form: AddressForm) -> None:
    for name in ("host", "database", "user"):
        if not form.values[name]:
            form.errors[name] = SourceProblem("needed", f"the {name} is missing", "Enter it")
    port = form.values["port"]
    if port and not 0 < (whole_number(port) or 0) < 65536:
        cause = "a port is a number from 1 to 65535"
        form.errors["port"] = SourceProblem("bad_port", cause, "Usually 5432")
    if form.sslmode not in dict(SSL_MODES):
        cause = "this is not an sslmode"
        form.errors["sslmode"] = SourceProblem("bad_sslmode", cause, "Choose one")


def form_of(values: Mapping[str, str], conninfo: str, *, has_password: bool) -> AddressForm:
    """Build the form from the stored values and connection string of a draft."""
    form = AddressForm(dict(values), has_password=has_password)
    if form.how == STRING:
        form.values["dsn"] = conninfo
    return form


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
    if fault := name_fault(form.values["name"]):
        form.trouble(SourceProblem("name", fault, "Choose another name"))
    if form.errors:
        return None
    password_fields = (
        ("sealed_password", "password_ref") if form.has_password and not form.password else ()
    )
    former_password = {name: getattr(draft, name) for name in password_fields}
    dsn, reference = dsn_of(form)
    try:
        set_dsn(draft, dsn, reference or former_password.get("password_ref", ""),
                has_password=bool(former_password.get("sealed_password")))  # fmt: skip
        draft.sealed_password = former_password.get("sealed_password") or draft.sealed_password
        conninfo = drafts.conninfo_of(draft)
        with reading(conninfo, deadline_seconds=DEADLINE_SECONDS) as connection:
            facts = read_server_facts(connection)
    except SourceProblem as error:
        form.trouble(error.with_places(PLACES))
        return None
    except UNUSABLE as error:
        remedy = "Correct it" if error.field else "Correct the address"
        form.trouble(SourceProblem(error.code, str(error), remedy, error.field))
        return None
    return Reached(
        database=facts.database,
        version=facts.version,
        role=facts.role,
        system_identifier=facts.system_identifier,
        name=name_of(form, facts.database),
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
