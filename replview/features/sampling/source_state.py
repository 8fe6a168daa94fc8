"""What holds a source back, as one row of ``source_look``: written anew at every sample.

The list of prepared transactions may be long and seldom changes: it is written only when it does,
known by a digest kept in ``holders``.
"""

import datetime as dt
import hashlib
from typing import Any

import orjson

from replview.catalog.server import ServerFacts
from replview.catalog.state.holders import Holders
from replview.store.models import Source, SourceLook

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
