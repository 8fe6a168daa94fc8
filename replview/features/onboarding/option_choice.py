"""The step that chooses a slot's options: their effect, their default, and the server's limits."""

from collections.abc import Mapping
from typing import Any

from django import forms

from replview.catalog.naming import slot_name_fault
from replview.catalog.plan.new_slot import HEARTBEAT_BOUNDS
from replview.catalog.server import ServerFacts
from replview.catalog.wal_budget import DATABASE, RECORD, default_budget, parse_budget
from replview.text.formats import bytes_words
from replview.text.sizes import exact_size
from replview.ui.sentence import BASELINE_COST, sentence

_LEAST_SECONDS, _MOST_SECONDS = HEARTBEAT_BOUNDS
_HEARTBEAT_ERROR = (
    f"Enter a number of seconds from {_LEAST_SECONDS} to {_MOST_SECONDS:,}, or nothing."
)
_BUDGET_NEEDED = (
    "A slot that replview creates needs a WAL budget: to be warned only, choose to protect the "
    "record."
)
_YES_NO = {"yes": True, "no": False}


class OptionField(forms.ChoiceField):
    """The form field of an option of the slot; its first choice is the default."""

    def __init__(
        self, label: str, about: str, *choices: tuple[str, str, str], refusal: str = ""
    ) -> None:
        #: Value, label and meaning of each choice.
        self.meanings = choices
        #: The reason that the option is not available; empty if it is.
        self.refusal = refusal
        self.default = choices[0][0]
        super().__init__(
            label=label,
            help_text=about,
            choices=[(value, word) for value, word, _ in choices],
            initial=self.default,
            required=False,
            disabled=bool(refusal),
            error_messages={"invalid_choice": "Choose one of these."},
        )

    def prepare_value(self, value: object) -> object:
        """Return the value of the choice; stored options have a boolean for yes and no."""
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value

    def clean(self, value: object) -> object:
        """Return the chosen value, else the default, with a boolean for yes and no."""
        chosen = super().clean(value) or self.default
        return _YES_NO.get(chosen, chosen)


class OptionForm(forms.Form):
    """The options of the slot, with the values chosen before, else the defaults."""

    slot_name = forms.CharField(
        label="Name of the slot and its publication",
        help_text="Visible to others on the server.",
        required=False,
    )
    wal_budget = forms.CharField(label="WAL budget", max_length=40, required=False)
    heartbeat = forms.IntegerField(
        label="Heartbeat",
        help_text="Writes a small message to the source when nothing was committed for this long. "
        "An idle slot confirms its position without it.",
        min_value=_LEAST_SECONDS,
        max_value=_MOST_SECONDS,
        required=False,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), _HEARTBEAT_ERROR),
    )

    baseline_cost = BASELINE_COST

    def __init__(
        self,
        facts: ServerFacts,
        answers: Mapping[str, Any],
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self.facts = facts
        #: True when no replication connection is possible.
        self.sql_only = bool((answers.get("check") or {}).get("sql_only"))
        self._usual, self._further = _usual_options(), _further_options(facts)
        options = self._usual | self._further
        former: Mapping[str, Any] = answers.get("options") or {}
        size, reason = default_budget(facts)
        initial = {
            name: former[name] for name in former.keys() & options if not options[name].refusal
        }
        if self.sql_only and not former:
            initial["interface"] = "sql"
        initial |= {
            "slot_name": answers.get("slot_name") or "replview",
            "wal_budget": former.get("wal_budget") or exact_size(size),
            "heartbeat": former.get("heartbeat_seconds"),
        }
        super().__init__(data, initial=initial)
        self.fields["wal_budget"].help_text = (
            "WAL that the slot may retain on the source's disk while replview is away. Default: "
            f"{bytes_words(size)}: {reason}."
        )
        self.fields |= options

    @property
    def usual(self) -> list[forms.BoundField]:
        """Return the options that are always shown."""
        return [self[name] for name in self._usual]

    @property
    def further(self) -> list[forms.BoundField]:
        """Return the options that are shown on request."""
        return [self[name] for name in self._further]

    @property
    def further_shown(self) -> bool:
        """Return whether a further option is wrong or differs from its default."""
        return (
            self.sql_only
            or bool(self["heartbeat"].errors)
            or any(self[name].value() != field.default for name, field in self._further.items())
        )

    @property
    def focus(self) -> str:
        """Return the first field to correct, which gets the focus; empty if there is none."""
        return next((field.name for field in self if field.errors), "")

    def clean_slot_name(self) -> str:
        """Refuse a name that PostgreSQL would refuse."""
        name: str = self.cleaned_data["slot_name"]
        if fault := slot_name_fault(name):
            raise forms.ValidationError(f"{sentence(fault)}.")
        return name

    def clean_wal_budget(self) -> str:
        """Return the budget as it was entered; empty stands for the default."""
        text: str = self.cleaned_data["wal_budget"]
        try:
            size = parse_budget(text) if text else 0
        except ValueError as error:
            raise forms.ValidationError(f"{sentence(str(error))}.") from None
        if size is None:
            raise forms.ValidationError(_BUDGET_NEEDED)
        return text

    def clean_heartbeat(self) -> int | None:
        """Return the interval in seconds; refuse one on a standby, which is read-only."""
        seconds: int | None = self.cleaned_data["heartbeat"]
        if seconds is not None and self.facts.in_recovery:
            raise forms.ValidationError("This server is a standby: it cannot be written to.")
        return seconds

    def answers(self) -> dict[str, object]:
        """Return the values as answers of a draft."""
        options = dict(self.cleaned_data)
        slot_name, heartbeat_seconds = options.pop("slot_name"), options.pop("heartbeat")
        return {
            "slot_name": slot_name,
            "options": {**options, "heartbeat_seconds": heartbeat_seconds},
        }


def _usual_options() -> dict[str, OptionField]:
    return {
        "baseline": OptionField(
            "Present rows",
            "A record begins with the first change. Earlier values of a row are unknown, "
            "unless its table is read once.",
            ("no", "Leave them", "can be done later, table by table"),
            ("yes", "Read them once", "each table is read from beginning to end"),
        ),
        "protect": OptionField(
            "At the WAL budget",
            "While replview is away, the source keeps WAL for the slot. At half the budget "
            "replview warns; at the budget it protects what you choose.",
            (DATABASE, "Protect the database",
             "replview drops its slot; the disk is safe, history has a gap"),
            (RECORD, "Protect the record",
             "replview only warns; the source's disk may fill up"),
        ),
    }  # fmt: skip


def _further_options(facts: ServerFacts) -> dict[str, OptionField]:
    return _transaction_options(facts) | _content_options(facts) | _reading_options(facts)


def _transaction_options(facts: ServerFacts) -> dict[str, OptionField]:
    """Return the options about streamed and prepared transactions."""
    prepared = facts.max_prepared_transactions > 0
    return {
        "streaming": OptionField(
            "Large transactions",
            "A transaction larger than logical_decoding_work_mem can be sent while it is "
            "still open.",
            ("parallel", "Shown while they run",
             "you see them grow; the source spills nothing to disk"),
            ("on", "Shown while they run, one after another", "for tests"),
            ("off", "Shown when they commit", "the source may spill them to its disk"),
            refusal="" if facts.version >= 140000 else "needs PostgreSQL 14",
        ),
        "two_phase": OptionField(
            "Prepared transactions",
            "PREPARE TRANSACTION: shown when they are prepared, or only once committed.",
            ("yes", "Shown when prepared", "shows forgotten ones"),
            ("no", "Shown when committed", ""),
            refusal=""
            if facts.version >= 150000 and prepared
            else "max_prepared_transactions is 0: there are none"
            if not prepared
            else "needs PostgreSQL 15",
        ),
    }  # fmt: skip


def _content_options(facts: ServerFacts) -> dict[str, OptionField]:
    """Return the options about logical messages and about changes from other origins."""
    return {
        "messages": OptionField(
            "Logical messages",
            "pg_logical_emit_message: how an application says who did something.",
            ("on", "Received", "actors and test messages come with them"),
            ("off", "Not received", ""),
            refusal="" if facts.version >= 140000 else "needs PostgreSQL 14",
        ),
        "origin": OptionField(
            "Changes replicated from elsewhere",
            "Rows that this source itself received from another server.",
            ("any", "Received", "marked with their origin"),
            ("none", "Left out", "only changes written on this source"),
            refusal="" if facts.version >= 160000 else "needs PostgreSQL 16",
        ),
    }


def _reading_options(facts: ServerFacts) -> dict[str, OptionField]:
    """Return the options about failover, the connection, and rolled back changes."""
    return {
        "failover": OptionField(
            "Survive a failover",
            "Standbys with sync_replication_slots keep a copy of the slot, so that the "
            "record goes on after one is promoted.",
            ("no", "No", "default without a standby"),
            ("yes", "Yes", "the slot is created with failover = true"),
            refusal=""
            if facts.major >= 17 and not facts.in_recovery
            else "this server is a standby"
            if facts.major >= 17
            else "needs PostgreSQL 17",
        ),
        "interface": OptionField(
            "How it is read",
            "Through a replication connection, or by SQL functions if poolers or rules refuse it.",
            ("walsender", "Replication connection", "immediate and fast"),
            ("sql", "SQL functions", "about a second later; nothing while a transaction runs"),
        ),
        "keep_aborted": OptionField(
            "Rolled back changes",
            "Changes of transactions that were streamed and then rolled back.",
            ("no", "Forget it", "after ten minutes"),
            ("yes", "Keep it, marked", "uses space in the store"),
        ),
    }
