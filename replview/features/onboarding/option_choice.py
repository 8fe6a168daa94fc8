"""The step that chooses a slot's options: their effect, their default, and the server's limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replview.catalog.naming import slot_name_fault
from replview.catalog.plan.new_slot import HEARTBEAT_BOUNDS
from replview.catalog.server import ServerFacts
from replview.catalog.wal_budget import DATABASE, RECORD, default_budget, parse_budget
from replview.text.formats import bytes_words
from replview.text.parsing import whole_number
from replview.text.sizes import exact_size
from replview.ui.params import Params
from replview.ui.sentence import BASELINE_COST


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the slot, with its choices."""

    name: str
    label: str
    about: str
    #: Value, label and meaning of each choice, the default first.
    choices: tuple[tuple[str, str, str], ...]
    #: The reason that the option is not available; empty if it is.
    refusal: str = ""


@dataclass(slots=True)
class OptionForm:
    """The options with the chosen values and the errors."""

    facts: ServerFacts
    values: dict[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    #: True when no replication connection is possible.
    sql_only: bool = False
    #: Estimated number of rows in the chosen tables; None when unknown.
    estimated_rows: int | None = None

    baseline_cost = BASELINE_COST

    @property
    def usual(self) -> list[tuple[Option, str]]:
        """Return the options that are always shown, each with its chosen value."""
        return [(option, self.values[option.name]) for option in _usual_options(self.facts)]

    @property
    def further(self) -> list[tuple[Option, str]]:
        """Return the options that are shown on request, each with its chosen value."""
        return [(option, self.values[option.name]) for option in _further_options(self.facts)]

    @property
    def further_changed(self) -> bool:
        """Return whether a further option differs from its default, so that all are shown."""
        return self.sql_only or any(
            chosen != option.choices[0][0] for option, chosen in self.further if not option.refusal
        )

    @property
    def default_budget(self) -> str:
        """Return the default WAL budget with its reason, for example ``10 GB: …``."""
        size, why = default_budget(self.facts)
        return f"{bytes_words(size)}: {why}"


def form_of(facts: ServerFacts, answers: Mapping[str, Any]) -> OptionForm:
    """Build the form with the values chosen before, else with the defaults."""
    former: Mapping[str, Any] = answers.get("options") or {}
    sql_only = bool((answers.get("check") or {}).get("sql_only"))
    size, _ = default_budget(facts)
    values = {
        option.name: _chosen_value(option, former.get(option.name))
        for option in (*_usual_options(facts), *_further_options(facts))
    }
    if sql_only and not former:
        values["interface"] = "sql"
    values |= {
        "slot_name": str(answers.get("slot_name") or "replview"),
        "wal_budget": str(former.get("wal_budget") or exact_size(size)),
        "heartbeat": str(former.get("heartbeat_seconds") or ""),
    }
    return OptionForm(facts, values, sql_only=sql_only)


def read_form(form: OptionForm, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the choices as a draft's answers; None with ``form.errors`` if one is bad."""
    options: dict[str, Any] = {}
    for option in (*_usual_options(form.facts), *_further_options(form.facts)):
        chosen = _chosen_value(option, params.get(option.name))
        form.values[option.name] = chosen
        options[option.name] = {"yes": True, "no": False}.get(chosen, chosen)
    for name in ("slot_name", "wal_budget", "heartbeat"):
        form.values[name] = Params(params).text(name, 100)
    if fault := slot_name_fault(form.values["slot_name"]):
        form.errors["slot_name"] = fault
    options["wal_budget"] = form.values["wal_budget"]
    try:
        if form.values["wal_budget"] and parse_budget(form.values["wal_budget"]) is None:
            raise ValueError("a slot that replview creates needs a WAL budget: to be warned "
                             "only, choose to protect the record")  # fmt: skip
    except ValueError as error:
        form.errors["wal_budget"] = str(error)
    options["heartbeat_seconds"] = _heartbeat(form)
    if form.errors:
        return None
    return {"slot_name": form.values["slot_name"], "options": options}


def _heartbeat(form: OptionForm) -> int | None:
    """Return the heartbeat's interval in seconds; None if empty or bad, with the error if bad."""
    text = form.values["heartbeat"]
    if not text:
        return None
    least, most = HEARTBEAT_BOUNDS
    seconds = whole_number(text, digits=8)
    if seconds is None or not least <= seconds <= most:
        form.errors["heartbeat"] = f"a number of seconds from {least} to {most:,}, or nothing"
        return None
    if form.facts.in_recovery:
        form.errors["heartbeat"] = "this server is a standby: it cannot be written to"
        return None
    return seconds


def _chosen_value(option: Option, requested: object) -> str:
    """Return the requested value if the option has it and is available, else the default."""
    text = (
        {True: "yes", False: "no"}.get(requested, requested)
        if isinstance(requested, bool)
        else requested
    )
    values = [value for value, _, _ in option.choices]
    return str(text) if text in values and not option.refusal else values[0]


def _usual_options(facts: ServerFacts) -> tuple[Option, ...]:
    return (
        Option(
            name="baseline",
            label="Present rows",
            about="A record begins with the first change. Earlier values of a row are unknown, "
            "unless its table is read once.",
            choices=(
                ("no", "Leave them", "can be done later, table by table"),
                ("yes", "Read them once", "each table is read from beginning to end"),
            ),
        ),
        Option(
            name="protect",
            label="At the WAL budget",
            about="While replview is away, the source keeps WAL for the slot. At half the budget "
            "replview warns; at the budget it protects what you choose.",
            choices=(
                (DATABASE, "Protect the database",
                 "replview drops its slot; the disk is safe, history has a gap"),
                (RECORD, "Protect the record",
                 "replview only warns; the source's disk may fill up"),
            ),
        ),
    )  # fmt: skip


def _further_options(facts: ServerFacts) -> tuple[Option, ...]:
    return (*_transaction_options(facts), *_content_options(facts), *_reading_options(facts))


def _transaction_options(facts: ServerFacts) -> tuple[Option, ...]:
    """Return the options about streamed and prepared transactions."""
    prepared = facts.max_prepared_transactions > 0
    return (
        Option(
            name="streaming",
            label="Large transactions",
            about="A transaction larger than logical_decoding_work_mem can be sent while it is "
            "still open.",
            choices=(
                ("parallel", "Shown while they run",
                 "you see them grow; the source spills nothing to disk"),
                ("on", "Shown while they run, one after another", "for tests"),
                ("off", "Shown when they commit", "the source may spill them to its disk"),
            ),
            refusal="" if facts.version >= 140000 else "needs PostgreSQL 14",
        ),
        Option(
            name="two_phase",
            label="Prepared transactions",
            about="PREPARE TRANSACTION: shown when they are prepared, or only once committed.",
            choices=(
                ("yes", "Shown when prepared", "shows forgotten ones"),
                ("no", "Shown when committed", ""),
            ),
            refusal=""
            if facts.version >= 150000 and prepared
            else "max_prepared_transactions is 0: there are none"
            if not prepared
            else "needs PostgreSQL 15",
        ),
    )  # fmt: skip


def _content_options(facts: ServerFacts) -> tuple[Option, ...]:
    """Return the options about logical messages and about changes from other origins."""
    return (
        Option(
            name="messages",
            label="Logical messages",
            about="pg_logical_emit_message: how an application says who did something.",
            choices=(
                ("on", "Received", "actors and test messages come with them"),
                ("off", "Not received", ""),
            ),
            refusal="" if facts.version >= 140000 else "needs PostgreSQL 14",
        ),
        Option(
            name="origin",
            label="Changes replicated from elsewhere",
            about="Rows that this source itself received from another server.",
            choices=(
                ("any", "Received", "marked with their origin"),
                ("none", "Left out", "only changes written on this source"),
            ),
            refusal="" if facts.version >= 160000 else "needs PostgreSQL 16",
        ),
    )


def _reading_options(facts: ServerFacts) -> tuple[Option, ...]:
    """Return the options about failover, the connection, and rolled back changes."""
    return (
        Option(
            name="failover",
            label="Survive a failover",
            about="Standbys with sync_replication_slots keep a copy of the slot, so that the "
            "record goes on after one is promoted.",
            choices=(
                ("no", "No", "default without a standby"),
                ("yes", "Yes", "the slot is created with failover = true"),
            ),
            refusal=""
            if facts.major >= 17 and not facts.in_recovery
            else "this server is a standby"
            if facts.major >= 17
            else "needs PostgreSQL 17",
        ),
        Option(
            name="interface",
            label="How it is read",
            about="Through a replication connection, or by SQL functions if poolers or rules "
            "refuse it.",
            choices=(
                ("walsender", "Replication connection", "immediate and fast"),
                ("sql", "SQL functions", "about a second later; nothing while a transaction runs"),
            ),
        ),
        Option(
            name="keep_aborted",
            label="Rolled back changes",
            about="Changes of transactions that were streamed and then rolled back.",
            choices=(
                ("no", "Forget it", "after ten minutes"),
                ("yes", "Keep it, marked", "uses space in the store"),
            ),
        ),
    )
