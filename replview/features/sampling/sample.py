"""Take one sample of a source, and store it.

A kept connection runs three statements, and once a minute a few more for facts that seldom change.
The result is a sample of every slot and of the source, and its current facts. All facts of a slot
go into ``WatchedSlot.facts``, named as in the server's views; values that vary go into columns of
``slot_sample``. None is unknown.
"""

import datetime as dt
import hashlib
import logging
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from replview.catalog import checkpoints, server, wal_directory
from replview.catalog.connection_cache import CachedConnection, KeptConnections
from replview.catalog.holders import Holders
from replview.catalog.open_now import OpenNow, read_open_now
from replview.catalog.problems import SourceProblem
from replview.catalog.slots import SlotStates, read_slot_states
from replview.catalog.subscriptions import read_subscription_columns, read_subscriptions
from replview.features.sampling import rows
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Source, SourceLook

log = logging.getLogger(__name__)

#: Seconds between two readings of the server's facts.
_FACTS_SECONDS = 60.0
#: Seconds between two readings of pg_wal's size, which reads every file's size. Retained WAL shows
#: growth sooner.
_WAL_DIRECTORY_SECONDS = 30.0
#: Decoding counters of a slot since ``stats_reset``, from pg_stat_replication_slots.
COUNTERS = (
    "spill_txns", "spill_count", "spill_bytes", "stream_txns", "stream_count", "stream_bytes",
    "stats_reset",
)  # fmt: skip
#: Seconds after which a source that has not answered is disconnected.
DEADLINE_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResult:
    """The result of one sample of a source."""

    facts: server.ServerFacts
    states: SlotStates
    open_now: OpenNow
    #: Subscriptions by name; None if this role may not read them.
    subscriptions: dict[str, dict[str, Any]] | None
    #: Size of pg_wal, at most half a minute old; None if this role may not read it.
    wal_directory_bytes: int | None
    took_seconds: float
    #: Start of the last checkpoint; None if this role may not read it.
    checkpointed_at: dt.datetime | None = None
    at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))


def take_sample(cached: CachedConnection) -> SampleResult:
    """Sample the source once. Raises ``psycopg.Error``."""
    began = time.monotonic()
    states = read_slot_states(cached.connection)
    facts = _server_facts(cached, states)
    sampled_at = dt.datetime.now(dt.UTC)
    open_now = read_open_now(
        cached.connection, states, may_be_prepared=facts.max_prepared_transactions > 0
    )
    return SampleResult(
        facts=facts,
        states=states,
        open_now=open_now,
        subscriptions=_subscriptions(cached, open_now),
        wal_directory_bytes=_wal_directory_bytes(cached),
        checkpointed_at=checkpoints.read_last_checkpoint(cached.connection)
        if cached.may_read_checkpoints
        else None,
        took_seconds=time.monotonic() - began,
        at=sampled_at,
    )


def _server_facts(cached: CachedConnection, states: SlotStates) -> server.ServerFacts:
    """Return the server's facts, read again once a minute and after a promotion."""
    now = time.monotonic()
    facts = cached.facts
    stale = now - cached.facts_at >= _FACTS_SECONDS
    if facts is None or facts.in_recovery != states.in_recovery or stale:
        facts = server.read_server_facts(cached.connection)
        cached.subscription_columns = read_subscription_columns(cached.connection)
        cached.may_read_checkpoints = checkpoints.may_read_checkpoints(cached.connection)
        cached.may_list_wal = wal_directory.may_list_wal_directory(cached.connection)
        cached.facts, cached.facts_at = facts, now
    return facts


def _subscriptions(cached: CachedConnection, open_now: OpenNow) -> dict[str, dict[str, Any]] | None:
    """Return the subscriptions by name; None if this role may not read them."""
    if open_now.subscriptions == 0:
        return {}
    if open_now.subscriptions is None or "subname" not in cached.subscription_columns:
        return None
    return read_subscriptions(cached.connection, cached.subscription_columns)


def _wal_directory_bytes(cached: CachedConnection) -> int | None:
    """Return the size of pg_wal, read every half minute; None if that is not allowed."""
    if not cached.may_list_wal:
        return None
    now = time.monotonic()
    if not cached.wal_directory_at or now - cached.wal_directory_at >= _WAL_DIRECTORY_SECONDS:
        cached.wal_directory_bytes = wal_directory.read_wal_directory_bytes(cached.connection)
        cached.wal_directory_at = now
    return cached.wal_directory_bytes


def store_facts(
    source: Source,
    holders: Holders,
    facts: server.ServerFacts,
    counters: dict[str, dict[str, Any]],
    own_slots: set[str],
) -> None:
    """Store a source's current facts. ``own_slots`` has the names of replview's slots there."""
    prepared = rows.plain(holders.prepared)
    digest = hashlib.blake2s(orjson.dumps(prepared)).hexdigest()
    values: dict[str, Any] = {
        "looked_at": dt.datetime.now(dt.UTC),
        "running": rows.plain(holders.running),
        "holders": {
            **rows.plain(_holders(holders, facts, counters, own_slots)),
            "prepared_digest": digest,
        },
    }
    looks = SourceLook.objects.filter(source=source)
    if looks.filter(holders__prepared_digest=digest).update(**values):
        return
    values |= {"prepared": prepared, "prepared_limit": holders.prepared_limit}
    SourceLook.objects.update_or_create(source=source, defaults=values)


def _holders(
    holders: Holders,
    facts: server.ServerFacts,
    counters: dict[str, dict[str, Any]],
    own_slots: set[str],
) -> dict[str, object]:
    """Return what holds back WAL or the xid horizon on the source, with its slots' counters."""
    slots = None
    if holders.slots is not None:
        # Slots that replview does not read hold back too. Counters need PostgreSQL 14.
        slots = {
            name: {
                **horizon,
                **(
                    {counter: counters[name].get(counter) for counter in COUNTERS}
                    if name in counters
                    else {}
                ),
                "ours": name in own_slots,
            }
            for name, horizon in holders.slots.items()
        }
    return {
        "slots": slots,
        "standbys": holders.standbys,
        "waiting": holders.waiting,
        "prepared_between": holders.prepared_between
        and [str(bound) for bound in holders.prepared_between],
        "next_xid": holders.next_xid,
        "may_read_stats": holders.may_read_stats,
        "logical_decoding_work_mem_bytes": facts.logical_decoding_work_mem_bytes,
        "max_prepared_transactions": facts.max_prepared_transactions,
        # Identifies the running server, and the database.
        "started_at": facts.started_at,
        "database": facts.database,
        "failover_settings": facts.failover_settings,
    }


def read_source(source: Source, connections: KeptConnections) -> SampleResult | SourceProblem:
    """Sample a source, or return the problem that prevents it; the store is not used."""
    try:
        conninfo = full_conninfo(source)
        return connections.ask(source.pk, conninfo, take_sample, deadline_seconds=DEADLINE_SECONDS)
    except SourceProblem as error:
        return error
    except UNUSABLE as error:
        return SourceProblem("bad_dsn", str(error), "Fix that, or change its credentials")


def store(
    source: Source, result: SampleResult | SourceProblem, took_seconds: float
) -> SourceProblem | None:
    """Store the result of a sample; return the problem that prevented it, if there was one."""
    if isinstance(result, SourceProblem):
        return _store_trouble(source, result, took_seconds)
    slots = {
        name: (facts, rows.sample_columns(facts, result.states))
        for name in result.states.slots
        if (facts := rows.slot_facts(result.states, name)) is not None
    }
    missing = rows.sample_columns(None, result.states)
    sampled = rows.store_seen(
        source.pk, result.at, slots, missing, _source_sample(result), result.subscriptions
    )
    own_slots = {slot.name for slot in sampled if slot.ours}
    store_facts(source, result.open_now.holders, result.facts, result.states.counters, own_slots)
    rows.store_source(source.pk, **_source_columns(result.facts))
    return None


def _source_sample(result: SampleResult) -> dict[str, object]:
    return {
        "reachable": True,
        "current_lsn": result.states.current_lsn,
        "wal_directory_bytes": result.wal_directory_bytes,
        "prepared": result.open_now.prepared,
        "oldest_prepared_seconds": result.open_now.oldest_prepared_seconds,
        "running": result.open_now.running,
        "oldest_running_seconds": result.open_now.oldest_running_seconds,
        "took_seconds": result.took_seconds,
        "checkpointed_at": result.checkpointed_at,
    }


def _source_columns(facts: server.ServerFacts) -> dict[str, object]:
    """Return the columns of the source's row; keep an identity that could not be read now."""
    columns: dict[str, Any] = {
        "server_version": facts.version,
        "encoding": facts.encoding,
        "in_recovery": facts.in_recovery,
        "max_slot_wal_keep_bytes": facts.max_slot_wal_keep_bytes,
        "idle_slot_timeout_seconds": facts.idle_slot_timeout_seconds,
        "hot_standby_feedback": facts.hot_standby_feedback,
        **dict.fromkeys(("problem_code", "problem_cause", "problem_remedy"), ""),
    }
    if facts.system_identifier is not None:
        columns |= {"system_identifier": facts.system_identifier, "timeline": facts.timeline}
    return columns


def _store_trouble(source: Source, trouble: SourceProblem, took_seconds: float) -> SourceProblem:
    """Store the problem that prevented a sample."""
    if source.problem_code != trouble.code:  # logged once, not every five seconds
        fields = {"source": source.name, "problem": trouble.code}
        log.warning("source %s: %s", source.name, trouble.cause, extra=fields)
    rows.store_unreachable(source.pk, took_seconds)
    rows.store_source(
        source.pk,
        problem_code=trouble.code,
        problem_cause=trouble.cause,
        problem_remedy=trouble.remedy,
    )
    return trouble
