"""The actor command's work: plans, what they say, what a source has now."""

from dataclasses import dataclass
from typing import Any

import psycopg

from replview.acts.noting import note_source
from replview.catalog.connections import reading
from replview.catalog.doctor.findings import some_of
from replview.catalog.plan.actor_stamp import StampFacts, read_stamp
from replview.catalog.plan.stamp_carrying import carry_stamp
from replview.catalog.plan.stamp_plan import StampPlan, plan_install, plan_remove
from replview.catalog.plan.steps import Step
from replview.catalog.problems import SourceTrouble, explain
from replview.catalog.tables import read_tables
from replview.management.output.instance import PlainCommand, store_system_identifier
from replview.management.output.slot_acts import BY
from replview.store.dsn import full_conninfo, resolve
from replview.store.models import Source
from replview.store.write.access_record import Action, note

_DEADLINE_SECONDS = 60.0


def conninfo_of(text: str) -> str:
    """A source's name where the store knows it, else a DSN."""
    if "=" not in text and ":" not in text and store_system_identifier() is not None:
        source = Source.objects.filter(name=text).first()
        if source is not None:
            return full_conninfo(source)
    return resolve(text)


def note_act(text: str, act: str) -> None:
    """Somebody put the trigger onto a database, or took it away: where there is a store to tell."""
    if store_system_identifier() is None:
        return
    source = Source.objects.filter(name=text).first()
    if source is not None:
        note_source(source, act, by=BY)
    else:
        # A DSN may hold a password.
        note(Action.CHANGED_SOURCE, subject="a database by its DSN", details={"act": act, "by": BY})


def install_plan(conninfo: str, tables: list[str], *, all_tables: bool, revoke: bool) -> StampPlan:
    """What installing would run."""
    with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
        return plan_install(connection, tables, all_tables=all_tables, revoke=revoke)


def remove_plan(conninfo: str) -> StampPlan:
    """What removing would run."""
    with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
        return plan_remove(connection)


def carry(
    command: PlainCommand, conninfo: str, plan: StampPlan, *, taking_back: bool
) -> list[Step]:
    """Run the plan; returns the steps that are left to do."""
    try:
        return carry_stamp(conninfo, plan, command.say, taking_back=taking_back).left
    except psycopg.Error as error:
        raise SourceTrouble(explain(error, conninfo)) from None


def lines_of(plan: StampPlan) -> list[str]:
    """Every statement; its rights and locks once where they are the same for many."""
    lines: list[str] = []
    told: tuple[str, str] | None = None
    for step in plan.steps:
        if told is not None and told != (step.needs, step.costs):
            lines += _terms(told)
        told = (step.needs, step.costs)
        lines.append(f"  {step};")
    if told is not None:
        lines += _terms(told)
    return lines + [f"  note: {note}" for note in plan.notes]


def _terms(told: tuple[str, str]) -> list[str]:
    return [f"      needs: {told[0]}", f"      costs: {told[1]}"]


@dataclass(frozen=True, slots=True)
class Status:
    """What a source has of the stamp."""

    stamp: StampFacts
    #: Tables without the trigger.
    unstamped: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "installed": self.stamp.owner is not None,
            "owner": self.stamp.owner,
            "current": self.stamp.current,
            "stamped": [str(table) for table in self.stamp.tables if not table.disabled],
            "disabled": [str(table) for table in self.stamp.tables if table.disabled],
            "unstamped": list(self.unstamped),
            "public_may_emit": self.stamp.public_may_emit,
        }

    def lines(self) -> list[str]:
        """For people."""
        stamp = self.stamp
        if stamp.owner is None:
            return ["not installed: replview actor install DSN --table SCHEMA.TABLE"]
        stamped = [str(table) for table in stamp.tables if not table.disabled]
        lines = [f"installed, its function runs as {stamp.owner}"]
        if not stamp.current:
            lines.append("the function is another version's: 'actor install' renews it")
        lines.append(f"stamped ({len(stamped)}): {some_of(stamped, 20) if stamped else 'none'}")
        if off := [str(table) for table in stamp.tables if table.disabled]:
            lines.append(f"switched off ({len(off)}): {some_of(off, 20)}; ALTER TABLE … ENABLE "
                         "TRIGGER replview_stamp")  # fmt: skip
        if self.unstamped:
            lines.append(
                f"not stamped ({len(self.unstamped)}): {some_of(list(self.unstamped), 20)}"
            )
        lines.append(
            "every role may write messages, a false stamp too ('actor install --revoke-emit' ends "
            "that): a stamp is the word of whoever had the session"
            if stamp.public_may_emit
            else "only roles that were granted it may write messages: a stamp may be missing, but "
            "it is not false"
        )
        return lines


def read_status(conninfo: str) -> Status:
    """Look at a source."""
    with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
        stamp = read_stamp(connection)
        have = {str(table) for table in stamp.tables}
        unstamped = [str(table) for table in read_tables(connection) if str(table) not in have]
        return Status(stamp, tuple(unstamped))
