"""The connection test: what the server is, or why it cannot be reached."""

from dataclasses import dataclass

from replview.catalog.connections import reading
from replview.catalog.problems import SourceTrouble, Trouble
from replview.catalog.server import read_server_facts
from replview.features.onboarding.address_form import (
    AddressForm,
    dsn_of,
    name_fault,
    name_of,
)
from replview.jobs import drafts
from replview.store.address_parts import place_of
from replview.store.dsn import DSNError
from replview.store.models import Source, SourceDraft
from replview.store.secrets import SecretKeyChanged
from replview.ui.plan_text import trouble_for_page

DEADLINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Reached:
    """A server that answered."""

    database: str
    #: ``PG 16.14``: as ``server_version_num``.
    version: int
    role: str
    system_identifier: str | None
    #: The name the source gets.
    name: str


def connect_draft(form: AddressForm, draft: SourceDraft) -> Reached | None:
    """Try the form's address and put it into the draft (not saved); None with the error said."""
    if fault := name_fault(form.values["name"]):
        form.trouble(Trouble("name", fault, "Choose another name"))
    if form.errors:
        return None
    kept = ("sealed_password", "password_ref") if form.has_password and not form.password else ()
    former = {name: getattr(draft, name) for name in kept}
    dsn, reference = dsn_of(form)
    try:
        drafts.put_address(draft, dsn, reference)
        for name, value in former.items():
            setattr(draft, name, value)
        conninfo = drafts.conninfo_of(draft)
        with reading(conninfo, deadline_seconds=DEADLINE_SECONDS) as connection:
            facts = read_server_facts(connection)
    except SourceTrouble as error:
        form.trouble(trouble_for_page(error.trouble))
        return None
    except (DSNError, SecretKeyChanged) as error:
        text = str(error)
        part = "sslrootcert" if "of sslrootcert" in text else "password_place" if reference else ""
        remedy = "Correct it" if part else "Correct the address"
        form.trouble(trouble_for_page(Trouble(f"bad_{part or 'dsn'}", text, remedy)))
        return None
    return Reached(
        database=facts.database,
        version=facts.version,
        role=facts.role,
        system_identifier=facts.system_identifier,
        name=name_of(form, facts.database),
    )


def known_as(reached: Reached, conninfo: str) -> Source | None:
    """The source that is this very database already, whoever connects to it, as far as that can
    be told: a standby has its primary's identifier, and another address.
    """
    if reached.system_identifier is None:
        return None
    same = Source.objects.filter(system_identifier=reached.system_identifier, ephemeral=False)
    return next((one for one in same if place_of(one.conninfo) == place_of(conninfo)), None)
