"""One look at a source, stored: a sample of every slot, of the source, and facts of now.

Everything the server told of a slot goes into ``WatchedSlot.facts`` under the names its views use;
what moves goes into columns of ``slot_sample``. None is unknown.
"""

import datetime as dt
import hashlib
import logging
import time
from typing import Any

import orjson

from replview.catalog.connection_cache import KeptConnections
from replview.catalog.holders import Holders
from replview.catalog.problems import SourceProblem
from replview.catalog.server import ServerFacts
from replview.features.sampling.collect import Seen, look
from replview.features.sampling.rows import (
    sample_columns,
    slot_facts,
    store_seen,
    store_source,
    store_unreachable,
)
from replview.store.dsn import full_conninfo
from replview.store.models import Source, SourceLook
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged

#: Counters of decoding, from pg_stat_replication_slots: they are the slot's, since ``stats_reset``.
COUNTERS = (
    "spill_txns", "spill_count", "spill_bytes", "stream_txns", "stream_count", "stream_bytes",
    "stats_reset",
)  # fmt: skip
#: Names of roles, applications and gids have at most 200 bytes on the server, mostly 63.
_TEXT_LIMIT = 400


def store_look(
    source: Source,
    found: Holders,
    facts: ServerFacts,
    counters: dict[str, dict[str, Any]],
    ours: set[str],
) -> None:
    """Store one look at a source; ``ours``: the names of replview's own slots there."""
    prepared = _plain(found.prepared)
    digest = hashlib.blake2s(orjson.dumps(prepared)).hexdigest()
    values: dict[str, Any] = {
        "looked_at": dt.datetime.now(dt.UTC),
        "running": _plain(found.running),
        "holders": {
            **_plain(_holders(found, facts, counters, ours)),
            "prepared_digest": digest,
        },
    }
    known = SourceLook.objects.filter(source=source)
    if known.filter(holders__prepared_digest=digest).update(**values):
        return
    values |= {"prepared": prepared, "prepared_limit": found.prepared_limit}
    SourceLook.objects.update_or_create(source=source, defaults=values)


def _holders(
    found: Holders, facts: ServerFacts, counters: dict[str, dict[str, Any]], ours: set[str]
) -> dict[str, Any]:
    """What is told of the source's own slots (replview's), and of all else that holds."""
    slots = None
    if found.slots is not None:
        # Other logical slots hold back too: they are told, without their counters.
        slots = {
            name: {
                **horizon,
                **({c: counters[name].get(c) for c in COUNTERS} if name in counters else {}),
                "ours": name in ours,
            }
            for name, horizon in found.slots.items()
        }
    return {
        "slots": slots,
        "standbys": found.standbys,
        "waiting": found.waiting,
        "prepared_between": found.prepared_between and [str(p) for p in found.prepared_between],
        "next_xid": found.next_xid,
        "may_read_stats": found.may_read_stats,
        "logical_decoding_work_mem_bytes": facts.logical_decoding_work_mem_bytes,
        "max_prepared_transactions": facts.max_prepared_transactions,
        # Which running server this is, and which database of it.
        "started_at": facts.started_at,
        "database": facts.database,
        "failover_settings": facts.failover_settings,
    }


def _plain(value: Any) -> Any:
    """In JSON's types: moments as text; names as told, without what JSONB refuses."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dt.datetime):
        # Prepared or begun "infinitely" long ago does not exist: these are clock readings.
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, str):
        return value[:_TEXT_LIMIT].replace("\0", "")
    return value


log = logging.getLogger(__name__)

#: A source that has not told everything by then is cut off.
DEADLINE_SECONDS = 4.0


def sample_source(source: Source, kept: KeptConnections | None = None) -> SourceProblem | None:
    """Look at a source and store what it told; returns what kept us from it, if anything.

    ``kept``: where its connection is kept for the next look; without, it is closed.
    """
    connections = kept or KeptConnections()
    began = time.monotonic()
    try:
        return store(source, look_at(source, connections), time.monotonic() - began)
    finally:
        if kept is None:
            connections.close()


def look_at(source: Source, kept: KeptConnections) -> Seen | SourceProblem:
    """What the source tells, or what keeps us from it; nothing is stored, nor the store asked."""
    try:
        conninfo = full_conninfo(source)
        return kept.ask(source.pk, conninfo, look, deadline_seconds=DEADLINE_SECONDS)
    except SourceProblem as error:
        return error
    except (DSNError, SecretKeyChanged) as error:
        return SourceProblem("bad_dsn", str(error), "Mend that, or change its credentials")


def store(source: Source, seen: Seen | SourceProblem, took_seconds: float) -> SourceProblem | None:
    """Store what a look brought; returns what kept us from it."""
    if isinstance(seen, SourceProblem):
        return _store_trouble(source, seen, took_seconds)
    slots: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for name in seen.states.slots:
        facts = slot_facts(seen.states, name)
        if facts is not None:
            slots[name] = (facts, sample_columns(facts, seen.states))
    missing = sample_columns(None, seen.states)
    sampled = store_seen(source.pk, seen.at, slots, missing, _itself(seen), seen.subscriptions)
    ours = {slot.name for slot in sampled if slot.ours}
    store_look(source, seen.open_now.holders, seen.facts, seen.states.counters, ours)
    store_source(source.pk, **_facts(seen.facts))
    return None


def _itself(seen: Seen) -> dict[str, Any]:
    """The source's own sample."""
    return {
        "reachable": True,
        "current_lsn": seen.states.current_lsn,
        "wal_directory_bytes": seen.wal_directory_bytes,
        "prepared": seen.open_now.prepared,
        "oldest_prepared_seconds": seen.open_now.oldest_prepared_seconds,
        "running": seen.open_now.running,
        "oldest_running_seconds": seen.open_now.oldest_running_seconds,
        "took_seconds": seen.took_seconds,
        "checkpointed_at": seen.checkpointed_at,
    }


def _facts(facts: ServerFacts) -> dict[str, Any]:
    """The source's row; an identity that may not be read is left as it was."""
    told: dict[str, Any] = {
        "server_version": facts.version,
        "encoding": facts.encoding,
        "in_recovery": facts.in_recovery,
        "max_slot_wal_keep_bytes": facts.max_slot_wal_keep_bytes,
        "problem_code": "",
        "problem_cause": "",
        "problem_remedy": "",
    }
    if facts.system_identifier is not None:
        told |= {"system_identifier": facts.system_identifier, "timeline": facts.timeline}
    return told


def _store_trouble(source: Source, trouble: SourceProblem, took_seconds: float) -> SourceProblem:
    if source.problem_code != trouble.code:  # said once, not every five seconds
        said = {"source": source.name, "problem": trouble.code}
        log.warning("source %s: %s", source.name, trouble.cause, extra=said)
    store_unreachable(source.pk, took_seconds)
    store_source(
        source.pk,
        problem_code=trouble.code,
        problem_cause=trouble.cause,
        problem_remedy=trouble.remedy,
    )
    return trouble
