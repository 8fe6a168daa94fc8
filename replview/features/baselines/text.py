"""The texts of a slot's baselines and the form that requests them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.text import capfirst

from replview.store.models import Baseline, Slot, Transaction
from replview.text.formats import age_words, count_words, plural
from replview.text.parsing import table_word
from replview.ui.sentence import Sentence

#: Rate limits in rows per second that the form offers; 0 is no limit.
RATES = (1_000, 10_000, 50_000, 0)
USUAL_RATE = 10_000
#: Seconds after which a waiting baseline shows that no worker runs; a worker takes two.
UNCLAIMED_SECONDS = 10
WIDTH = 1000


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """A baseline as its page shows it."""

    baseline: Baseline
    #: When the first row was read; None if reading has not started, or is unknown.
    reading_since: datetime | None = None

    @property
    def name(self) -> str:
        """Return the table's name as ``schema.table``."""
        return f"{self.baseline.schema}.{self.baseline.table}"

    @property
    def again(self) -> bool:
        """Return whether the baseline failed or was cancelled, and may be requested again."""
        return self.baseline.state in (Baseline.State.FAILED, Baseline.State.CANCELLED)

    @property
    def level(self) -> str:
        """Return the health level whose symbol stands for the state."""
        return {
            Baseline.State.DONE: "ok",
            Baseline.State.FAILED: "look",
            Baseline.State.RUNNING: "unknown",
        }.get(Baseline.State(self.baseline.state), "idle")

    @property
    def width(self) -> int | None:
        """Return the bar's width in thousandths; None if the number of rows is unknown."""
        total = self.baseline.estimated_rows
        if self.baseline.state == Baseline.State.DONE:
            return WIDTH
        return min(WIDTH - 10, round(self.baseline.rows / total * WIDTH)) if total else None

    @property
    def rows(self) -> str:
        """Return the rows read so far, such as ``41,000 of about 200,000``."""
        if self.baseline.state == Baseline.State.WAITING:
            return "not begun"
        read = count_words(self.baseline.rows)
        if self.baseline.state == Baseline.State.RUNNING and self.baseline.lsn is None:
            return "waits for the transactions that are open"
        if self.baseline.state == Baseline.State.DONE:
            return read
        if self.again and not self.baseline.rows:
            return "nothing read"
        total = self.baseline.estimated_rows
        return f"{read} of about {count_words(total)}" if total else f"{read} of an unknown number"

    @property
    def progress(self) -> str:
        """Return the progress, such as ``requested`` or ``41,000 of about 200,000 rows``."""
        if self.baseline.state == Baseline.State.WAITING:
            return "requested"
        return f"{self.rows}{'' if self.baseline.lsn is None else ' rows'}"

    @property
    def rate(self) -> str | None:
        """Return the rate, such as ``19,800 rows/s``; None before there is enough data."""
        since = self.reading_since
        until = self.baseline.finished_at or timezone.now()
        seconds = (until - since).total_seconds() if since else 0
        waits = self.baseline.state == Baseline.State.WAITING
        if waits or seconds < 0.1 or not self.baseline.rows:
            return None
        return f"{count_words(round(self.baseline.rows / seconds))} rows/s"

    @property
    def unclaimed(self) -> bool:
        """Return whether the baseline was requested a while ago and no worker started it."""
        age = timezone.now() - self.baseline.requested_at
        waiting = self.baseline.state == Baseline.State.WAITING
        return waiting and age > timedelta(seconds=UNCLAIMED_SECONDS)

    @property
    def took(self) -> str | None:
        """Return the duration, such as ``4 min 26 s``; None before the end."""
        started, finished = self.baseline.started_at, self.baseline.finished_at
        return age_words(finished - started) if started and finished else None


def rows_of(baselines: Iterable[Baseline]) -> list[BaselineRow]:
    """Return the baselines as rows; their rates exclude the wait for the snapshot."""
    listed = list(baselines)
    transaction_ids = [
        baseline.transaction_id for baseline in listed if baseline.transaction_id is not None
    ]
    started = dict(
        Transaction.objects.filter(pk__in=transaction_ids).values_list("pk", "received_at")
    )
    return [BaselineRow(baseline, started.get(baseline.transaction_id or 0)) for baseline in listed]


def rate_words(rows_per_second: int) -> str:
    """Return the rate limit in words; 0 means no limit."""
    return f"{count_words(rows_per_second)} rows/s" if rows_per_second else "unlimited"


def sentence(slot: Slot, rows: list[BaselineRow]) -> Sentence:
    """Return the headline of the page: the state of the slot's baselines."""
    reading = [row for row in rows if row.baseline.state == Baseline.State.RUNNING]
    waiting = [row for row in rows if row.baseline.state == Baseline.State.WAITING]
    done = {row.name for row in rows if row.baseline.state == Baseline.State.DONE}
    if reading:
        waiting_text = f"; {plural(len(waiting), 'more table waits', 'more tables wait')}"
        first, tail = reading[0], waiting_text if waiting else ""
        if first.baseline.lsn is None:
            cause = f"Its snapshot waits for the transactions that are open{tail}."
            return _sentence("unknown", f"Starting to read {first.name}.", cause)
        return _sentence("unknown", f"Reading {first.name}.", f"{first.rows} rows so far{tail}.")
    if waiting:
        return _waiting_sentence(slot, waiting)
    if rows and rows[0].baseline.state == Baseline.State.FAILED:
        cause = rows[0].baseline.problem_cause
        title = f"No baseline of {rows[0].name}."
        return _sentence("look", title, f"{capfirst(cause)}.")
    if done:
        title = f"{plural(len(done), 'table has', 'tables have')} a baseline."
        return _sentence("ok", title, "Their rows are stored as of one WAL position.")
    return _sentence(
        "idle",
        "No table of this slot has a baseline.",
        "Without one, the values of a row before its first recorded change are unknown.",
        "choose tables.",
    )


def _waiting_sentence(slot: Slot, waiting: list[BaselineRow]) -> Sentence:
    title = f"{plural(len(waiting), 'table waits', 'tables wait')} to be read."
    if slot.incarnation_id is None:
        return _sentence("look", title, "The slot has never been connected: receive it first.")
    if any(row.unclaimed for row in waiting):
        cause = "No worker has started: none is running, or it reads another table of this source."
        return _sentence("look", title, cause, "check that replview up runs.")
    return _sentence("unknown", title, "It starts within seconds.")


def _sentence(level: str, title: str, cause: str = "", next_step: str = "") -> Sentence:
    return Sentence(level=level, title=title, cause=cause, next=next_step)


@dataclass(frozen=True, slots=True)
class BaselineTableChoice:
    """A published table as the form offers it."""

    #: ``public.orders``.
    name: str
    chosen: bool
    #: True when the table has a baseline of the slot's present incarnation.
    done: bool
    #: The partitioned table that this one is published through; None for any other table.
    root: str | None
    row_filter: str | None
    #: True when the table has no key that identifies its rows.
    keyless: bool


@dataclass(slots=True)
class BaselineForm:
    """The form that requests baselines: the tables on offer, and what is chosen."""

    #: ``PublicationLook.facts["tables"]``.
    tables: Sequence[Mapping[str, Any]]
    #: Tables that have a baseline of the slot's present incarnation.
    done: set[str]
    chosen: set[str]
    rate: int = USUAL_RATE
    error: str = ""

    @property
    def choices(self) -> list[BaselineTableChoice]:
        """Return the tables on offer."""
        return [
            BaselineTableChoice(
                name=name,
                chosen=name in self.chosen,
                done=name in self.done,
                root=table["root"],
                row_filter=table["row_filter"],
                keyless=not table["primary_key"] and table["replica_identity"] != "INDEX",
            )
            for table in self.tables
            for name in [table_word(table["schema"], table["table"])]
        ]

    @property
    def rates(self) -> list[tuple[int, str, bool]]:
        """Return the rate limits as (value, words, chosen)."""
        return [(rate, rate_words(rate), rate == self.rate) for rate in RATES]
