"""One look at a source, stored: a sample of every slot, of the source, and facts of now.

Everything the server told of a slot goes into ``WatchedSlot.facts`` under the names its views use;
what moves goes into columns of ``slot_sample``. None is unknown.
"""

import logging
import time
from typing import Any

from replview.catalog.connection_cache import KeptConnections
from replview.catalog.problems import SourceTrouble, Trouble
from replview.catalog.server import ServerFacts
from replview.features.sampling.collect import Seen, look
from replview.features.sampling.rows import store_seen, store_source, store_unreachable
from replview.features.sampling.slot_rows import sample_columns, slot_facts
from replview.features.sampling.source_state import store_look
from replview.store.dsn import DSNError, full_conninfo
from replview.store.models import Source
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

#: A source that has not told everything by then is cut off.
DEADLINE_SECONDS = 4.0


def sample_source(source: Source, kept: KeptConnections | None = None) -> Trouble | None:
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


def look_at(source: Source, kept: KeptConnections) -> Seen | Trouble:
    """What the source tells, or what keeps us from it; nothing is stored, nor the store asked."""
    try:
        conninfo = full_conninfo(source)
        return kept.ask(source.pk, conninfo, look, deadline_seconds=DEADLINE_SECONDS)
    except SourceTrouble as error:
        return error.trouble
    except (DSNError, SecretKeyChanged) as error:
        return Trouble("bad_dsn", str(error), "Mend that, or change its credentials")


def store(source: Source, seen: Seen | Trouble, took_seconds: float) -> Trouble | None:
    """Store what a look brought; returns what kept us from it."""
    if isinstance(seen, Trouble):
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


def _store_trouble(source: Source, trouble: Trouble, took_seconds: float) -> Trouble:
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
