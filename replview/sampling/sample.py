"""One look at a source: its slots and position, as rows of ``slot_sample`` and facts of ``source``.

Everything the server told goes into ``detail`` under the names its views use; None is unknown.
"""

import datetime as dt
import logging
from typing import Any

from replview.catalog.connections import Connection, reading
from replview.catalog.holders import read_holders
from replview.catalog.problems import SourceTrouble, Trouble
from replview.catalog.server import ServerFacts, read_position, read_server_facts
from replview.catalog.slots import (
    SlotFacts,
    plain,
    read_slots,
    read_stat_replication,
    read_stat_replication_slots,
)
from replview.sampling.look import store_look
from replview.store.dsn import DSNError, full_conninfo
from replview.store.models import Slot, SlotSample, Source
from replview.store.samples import store_samples
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

#: A source that has not told everything by then is cut off.
DEADLINE_SECONDS = 4.0
#: Columns of pg_replication_slots that have a column of their own in ``slot_sample``.
_OWN_COLUMNS = {
    "slot_name", "active", "restart_lsn", "confirmed_flush_lsn", "wal_status", "safe_wal_size",
    "retained_wal_bytes", "unconfirmed_wal_bytes", "further",
}  # fmt: skip


def sample_source(source: Source) -> Trouble | None:
    """Look at a source and store what it told; returns what kept us from it, if anything."""
    try:
        with reading(full_conninfo(source), deadline_seconds=DEADLINE_SECONDS) as connection:
            facts = read_server_facts(connection)
            counters = read_stat_replication_slots(connection)
            samples = _samples(source, connection, counters)
            holders = read_holders(connection)
    except SourceTrouble as error:
        return _store_trouble(source, error.trouble)
    except (DSNError, SecretKeyChanged) as error:
        return _store_trouble(source, Trouble("bad_dsn", str(error), "See replview source list"))
    store_samples(samples)
    store_look(source, holders, facts, counters)
    _store_facts(source, facts)
    return None


def _samples(
    source: Source, connection: Connection, counters: dict[str, dict[str, Any]]
) -> list[SlotSample]:
    """A sample of each slot that replview knows on the source."""
    position = read_position(connection)
    found = {slot.slot_name: slot for slot in read_slots(connection)}
    walsenders = read_stat_replication(connection)
    now = dt.datetime.now(dt.UTC)
    samples = []
    for slot in Slot.objects.filter(source=source).exclude(desired=Slot.Desired.REMOVING):
        facts = found.get(slot.name)
        detail: dict[str, Any] = {"missing": True}
        if facts is not None:
            detail = {
                **_detail_of(facts),
                **counters.get(slot.name, {}),
                **walsenders.get(facts.active_pid or 0, {}),
            }
        samples.append(_sample(slot, now, position, facts, detail))
    return samples


def _sample(
    slot: Slot,
    now: dt.datetime,
    position: int | None,
    facts: SlotFacts | None,
    detail: dict[str, Any],
) -> SlotSample:
    """A row; of a slot that is not there, all but the server's position is unknown."""
    sample = SlotSample(
        slot_id=slot.pk,
        sampled_at=now,
        current_lsn=position,
        transactions_stored=slot.transactions_stored,
        changes_stored=slot.changes_stored,
        detail=detail,
    )
    if facts is not None:
        sample.restart_lsn = facts.restart_lsn
        sample.confirmed_flush_lsn = facts.confirmed_flush_lsn
        sample.retained_wal_bytes = facts.retained_wal_bytes
        sample.unconfirmed_wal_bytes = facts.unconfirmed_wal_bytes
        sample.safe_wal_bytes = facts.safe_wal_size
        sample.wal_status = facts.wal_status
        sample.active = facts.active
    return sample


def _detail_of(facts: SlotFacts) -> dict[str, Any]:
    """What pg_replication_slots told beyond the sample's columns; what it lacks is absent."""
    names = [name for name in SlotFacts.__dataclass_fields__ if name not in _OWN_COLUMNS]
    values = {name: getattr(facts, name) for name in names}
    told = {name: value for name, value in values.items() if value is not None}
    return {**plain(told), **facts.further}


def _store_facts(source: Source, facts: ServerFacts) -> None:
    Source.objects.filter(pk=source.pk).update(
        server_version=facts.version,
        encoding=facts.encoding,
        in_recovery=facts.in_recovery,
        max_slot_wal_keep_bytes=facts.max_slot_wal_keep_bytes,
        checked_at=dt.datetime.now(dt.UTC),
        problem_code="",
        problem_cause="",
        problem_remedy="",
    )
    if facts.system_identifier is not None:
        Source.objects.filter(pk=source.pk).update(
            system_identifier=facts.system_identifier, timeline=facts.timeline
        )


def _store_trouble(source: Source, trouble: Trouble) -> Trouble:
    if source.problem_code != trouble.code:  # said once, not every five seconds
        log.warning("source %s: %s", source.name, trouble.cause)
    Source.objects.filter(pk=source.pk).update(
        checked_at=dt.datetime.now(dt.UTC),
        problem_code=trouble.code,
        problem_cause=trouble.cause,
        problem_remedy=trouble.remedy,
    )
    return trouble
