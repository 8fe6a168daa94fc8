"""One look at a source, on a connection that is kept: three statements, more once a minute.

What seldom changes (version, settings, identity, rights) is asked again after a minute, and at once
where the server came out of recovery.
"""

import datetime as dt
import time
from dataclasses import dataclass, field
from typing import Any

from replview.catalog.connection_cache import Kept
from replview.catalog.open_now import OpenNow, read_open_now
from replview.catalog.publications import read_subscription_columns, read_subscriptions
from replview.catalog.server import (
    ServerFacts,
    may_list_wal_directory,
    may_read_checkpoints,
    read_last_checkpoint,
    read_server_facts,
    read_wal_directory_bytes,
)
from replview.catalog.slots import SlotStates, read_slot_states

#: The server's facts are asked for so often.
_FACTS_SECONDS = 60.0
#: The WAL directory's size too: that looks at every file there, and tells nothing that retained
#: WAL does not tell sooner.
_WAL_DIRECTORY_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that one look told."""

    facts: ServerFacts
    states: SlotStates
    open_now: OpenNow
    #: By name; None where this role may not know.
    subscriptions: dict[str, dict[str, Any]] | None
    #: As last asked, half a minute ago at most; None where this role may not know.
    wal_directory_bytes: int | None
    took_seconds: float
    #: When the last checkpoint began; None where this role may not know.
    checkpointed_at: dt.datetime | None = None
    at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))


def look(kept: Kept) -> Seen:
    """Look once. Raises ``psycopg.Error``."""
    began = time.monotonic()
    states = read_slot_states(kept.connection)
    facts = _facts(kept, states)
    at = dt.datetime.now(dt.UTC)
    open_now = read_open_now(
        kept.connection, states, may_be_prepared=facts.max_prepared_transactions > 0
    )
    return Seen(
        facts=facts,
        states=states,
        open_now=open_now,
        subscriptions=_subscriptions(kept, open_now),
        wal_directory_bytes=_wal_directory_bytes(kept),
        checkpointed_at=read_last_checkpoint(kept.connection)
        if kept.may_read_checkpoints
        else None,
        took_seconds=time.monotonic() - began,
        at=at,
    )


def _facts(kept: Kept, states: SlotStates) -> ServerFacts:
    now = time.monotonic()
    facts = kept.facts
    if (
        facts is None
        or facts.in_recovery != states.in_recovery
        or now - kept.facts_at >= _FACTS_SECONDS
    ):
        facts = read_server_facts(kept.connection)
        kept.subscription_columns = read_subscription_columns(kept.connection)
        kept.may_read_checkpoints = may_read_checkpoints(kept.connection)
        kept.may_list_wal = may_list_wal_directory(kept.connection)
        kept.facts, kept.facts_at = facts, now
    return facts


def _subscriptions(kept: Kept, open_now: OpenNow) -> dict[str, dict[str, Any]] | None:
    if open_now.subscriptions == 0:
        return {}
    if open_now.subscriptions is None or "subname" not in kept.subscription_columns:
        return None
    return read_subscriptions(kept.connection, kept.subscription_columns)


def _wal_directory_bytes(kept: Kept) -> int | None:
    if not kept.may_list_wal:
        return None
    now = time.monotonic()
    if not kept.wal_directory_at or now - kept.wal_directory_at >= _WAL_DIRECTORY_SECONDS:
        kept.wal_directory_bytes = read_wal_directory_bytes(kept.connection)
        kept.wal_directory_at = now
    return kept.wal_directory_bytes
