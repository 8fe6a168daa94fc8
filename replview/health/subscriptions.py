"""This module decides the health of subscriptions: workers, progress and errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.dateparse import parse_datetime

from decoder.scalars import LSN
from replview.health.states import Health, Level, urgency
from replview.store.models import Source, WatchedSubscription
from replview.store.read.sql_text import identifier
from replview.text.formats import age_words, bytes_words, plural

#: A walsender sends at least two messages in each wal_sender_timeout, a minute by default.
SILENT_AFTER = timedelta(minutes=2)
#: A worker that fails restarts after wal_retrieve_retry_interval, five seconds by default.
FAILING_FOR = timedelta(minutes=1)
_BEHIND_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionView:
    """A subscription with its health, positions and errors, as pages show it."""

    source: Source
    name: str
    slot_name: str
    publications: str
    health: Health
    received_lsn: str
    confirmed_lsn: str
    #: Errors and conflicts, each as one short text; empty: not reported.
    errors: str
    conflicts: str
    #: The SQL that repairs the subscription; empty: none, or unknown.
    run: str = ""

    @property
    def level(self) -> Level:
        """Return the level of the subscription's health."""
        return self.health.level


def read_subscriptions(
    sources: Mapping[int, Source], now: datetime, stale_after: timedelta
) -> list[SubscriptionView]:
    """Return the subscriptions of these sources, worst first, by one query."""
    rows = WatchedSubscription.objects.filter(source__in=list(sources), gone_at=None)
    views = [view_of(sources[row.source_id], row, now, stale_after) for row in rows]
    return sorted(views, key=lambda view: (urgency(view.health), view.source.name, view.name))


def view_of(
    source: Source, row: WatchedSubscription, now: datetime, stale_after: timedelta
) -> SubscriptionView:
    """Return the view of one subscription from its sampled facts."""
    facts: dict[str, Any] = row.facts if isinstance(row.facts, dict) else {}
    health, run = _health(row.name, facts, now - row.last_seen_at, now, stale_after)
    publications = facts.get("subpublications")
    publication_names = (
        [str(publication) for publication in publications] if isinstance(publications, list) else []
    )
    counts = (facts.get("apply_error_count"), facts.get("sync_error_count"))
    counts_known = any(isinstance(count, int) for count in counts)
    return SubscriptionView(
        source=source,
        name=row.name,
        slot_name=str(facts.get("subslotname") or ""),
        publications=", ".join(publication_names),
        health=health,
        received_lsn=str(facts.get("received_lsn") or ""),
        confirmed_lsn=str(facts.get("latest_end_lsn") or ""),
        # Errors of applying and of copying tables, since the statistics were reset.
        errors=(_error_counts(facts) or "none") if counts_known else "",
        conflicts=_conflicts(facts),
        run=run,
    )


def _health(
    name: str,
    facts: Mapping[str, object],
    age: timedelta,
    now: datetime,
    stale_after: timedelta,
) -> tuple[Health, str]:
    """Return the health of the subscription, and the SQL that repairs it, if any."""
    if age > stale_after:
        title = f"Unknown for {age_words(age)}."
        return Health(
            level=Level.UNKNOWN, title=title, cause="The source has not reported it since."
        ), ""
    if facts.get("subenabled") is False:
        why = ""
        if facts.get("subdisableonerr") is True and (errors := _error_counts(facts)):
            # The server does not report why a subscription is disabled: this is likely.
            why = f"It is disabled on an error (disable_on_error), and had {errors}. "
        return Health(
            level=Level.LOOK,
            title="Disabled: nothing is applied.",
            cause=f"{why}Its slot on the publisher retains WAL for it.",
            next_step="enable it, or drop it with its slot.",
        ), f"ALTER SUBSCRIPTION {identifier(name)} ENABLE;"
    if (failing := _failing(facts, now)) is not None:
        return failing, ""
    if facts.get("pid") is None:
        return Health(
            level=Level.LOOK,
            title="Its worker does not run.",
            cause="It fails and is restarted, or the server lacks workers.",
            next_step="see the server's log, and max_logical_replication_workers.",
        ), ""
    return _running(facts, now), ""


def _failing(facts: Mapping[str, object], now: datetime) -> Health | None:
    """Return a finding if the worker failed lately, even if it runs again for the next try."""
    failed = _moment(facts.get("failed_at"))
    if failed is None or now - failed > FAILING_FOR:
        return None
    ago = age_words(now - failed)
    return Health(
        level=Level.LOOK,
        title=f"Fails: {_error_counts(facts) or 'errors'}, the last about {ago} ago.",
        cause="Its worker is restarted and continues where it stopped.",
        next_step="see the server's log for the cause.",
    )


def _running(facts: Mapping[str, object], now: datetime) -> Health:
    received_at = _moment(facts.get("last_msg_receipt_time"))
    if received_at is not None and now - received_at > SILENT_AFTER:
        return Health(
            level=Level.LOOK,
            title=f"Has received nothing from its publisher for {age_words(now - received_at)}.",
            cause="Its worker runs.",
            next_step="check whether the publisher can be reached.",
        )
    waiting = _to_confirm(facts)
    if waiting is None:
        return Health(level=Level.UNKNOWN, title="Its worker runs; its position is unknown.")
    if waiting > _BEHIND_BYTES:
        title = f"Behind: {bytes_words(waiting)} received and not confirmed."
        return Health(level=Level.LOOK, title=title)
    return Health(level=Level.OK, title="Caught up.")


def _to_confirm(facts: Mapping[str, object]) -> int | None:
    """Return the WAL that was received and is not yet reported to the publisher as applied."""
    received, reported = facts.get("received_lsn"), facts.get("latest_end_lsn")
    if not received or not reported:
        return None
    try:
        return max(int(LSN.parse(str(received))) - int(LSN.parse(str(reported))), 0)
    except ValueError:
        return None


def _error_counts(facts: Mapping[str, object]) -> str:
    """Return ``3 apply errors``; empty: none, or not reported."""
    counts = {kind: facts.get(f"{kind}_error_count") for kind in ("apply", "sync")}
    return ", ".join(
        plural(count, f"{kind} error")
        for kind, count in counts.items()
        if isinstance(count, int) and count
    )


def _conflicts(facts: Mapping[str, object]) -> str:
    """Return the conflicts by kind, which 18 and later report: ``3 insert exists``."""
    conflicts = {name: value for name, value in facts.items() if name.startswith("confl_")}
    counts = [
        f"{value:,} {name.removeprefix('confl_').replace('_', ' ')}"
        for name, value in conflicts.items()
        if isinstance(value, int) and value
    ]
    return ", ".join(counts) or ("none" if conflicts else "")


def _moment(value: object) -> datetime | None:
    try:
        return parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        return None
