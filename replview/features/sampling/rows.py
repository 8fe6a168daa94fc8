"""Store a sample of a source: samples of its slots and of itself, and the source's row.

A few statements per source run in one store transaction. Values that replview itself knows of its
slots (totals, its receiver's facts, the time from commit to stored) are added by the store.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from django.db import IntegrityError, connection, transaction
from psycopg import sql

from replview.catalog.slots import SlotStates
from replview.health.conditions import lost_reason
from replview.store.looks import KnownSlot, identify, update_seen
from replview.store.models import Source, SourceSample, WatchedSubscription
from replview.store.retention.tidy import make_partitions

Written = TypeVar("Written")
#: Most transactions, latest first, that the time from commit to stored is computed from.
_MOST_TRANSACTIONS = 300
#: Seconds without heartbeat after which a receiver's facts are out of date.
_RECEIVER_SECONDS = 10
_SAMPLED_COLUMNS = (
    "current_lsn pg_lsn, restart_lsn pg_lsn, confirmed_flush_lsn pg_lsn, "
    "retained_wal_bytes bigint, unconfirmed_wal_bytes bigint, safe_wal_bytes bigint, "
    "wal_status text, active boolean, write_lag_seconds float8, flush_lag_seconds float8, "
    "replay_lag_seconds float8, spill_txns bigint, spill_bytes bigint, stream_txns bigint, "
    "stream_bytes bigint, total_txns bigint, total_bytes bigint"
)
_COLUMNS = [column.split()[0] for column in _SAMPLED_COLUMNS.split(", ")]
_INSERT_SAMPLES = sql.SQL("""
    INSERT INTO slot_sample
        (slot_id, sampled_at, detail, {columns}, transactions_stored, changes_stored, bytes_stored,
         batch_changes, memory_bytes, stored_after_p50_seconds, stored_after_p99_seconds)
    SELECT r.slot_id, %(at)s, r.detail, {sampled},
           s.transactions_stored, s.changes_stored, s.bytes_stored,
           (live.facts->>'batch_changes')::bigint, (live.facts->>'memory_bytes')::bigint,
           after.seconds[1], after.seconds[2]
    FROM jsonb_to_recordset(%(rows)s) AS r (slot_id bigint, detail jsonb, {typed_columns})
    LEFT JOIN slot s ON s.id = r.slot_id
    LEFT JOIN watched_slot w ON w.id = r.slot_id
    LEFT JOIN LATERAL (
        SELECT CASE WHEN s.heartbeat_at > clock_timestamp() - make_interval(secs => %(live)s)
                    THEN s.receiver_facts END AS facts) live ON true
    LEFT JOIN LATERAL (
        SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
                   ORDER BY greatest(extract(epoch FROM t.stored_at - t.commit_time), 0)::float8)
                   AS seconds
        FROM (SELECT stored_at, commit_time FROM transaction
              WHERE incarnation_id = s.incarnation_id AND commit_seq IS NOT NULL
                AND s.last_stored_at > w.last_seen_at
              ORDER BY commit_seq DESC LIMIT %(latest)s) t
        WHERE t.stored_at > w.last_seen_at AND t.commit_time IS NOT NULL) after ON true
""").format(
    columns=sql.SQL(", ").join(map(sql.Identifier, _COLUMNS)),
    sampled=sql.SQL(", ").join(sql.Identifier("r", name) for name in _COLUMNS),
    typed_columns=sql.SQL(_SAMPLED_COLUMNS),
)
#: Column of a sample, by its name in pg_replication_slots.
_COLUMN_OF_FACT = {
    **{name: name for name in _COLUMNS if name not in ("current_lsn", "safe_wal_bytes")},
    "safe_wal_size": "safe_wal_bytes",
}
#: Columns of pg_stat_replication that are stored with the slot.
_WALSENDER_COLUMNS = (
    "pid", "usesysid", "usename", "application_name", "client_addr", "client_hostname",
    "client_port", "backend_start", "backend_xmin", "state", "sent_lsn", "write_lsn", "flush_lsn",
    "replay_lsn", "write_lag_seconds", "flush_lag_seconds", "replay_lag_seconds", "sync_priority",
    "sync_state", "reply_time",
)  # fmt: skip
#: Facts that are not in ``detail``: they are columns of the watched slot or of the sample.
_NOT_IN_DETAIL = {"slot_name", "slot_type", "datoid", "database", "temporary", *_COLUMN_OF_FACT}
#: Most characters per text; names of roles, applications and gids have at most 200 bytes.
_TEXT_LIMIT = 400


def store_seen(
    source_id: int,
    sampled_at: dt.datetime,
    slots: dict[str, tuple[dict[str, Any], dict[str, Any]]],
    missing: dict[str, Any],
    source_sample: dict[str, Any],
    subscriptions: dict[str, dict[str, Any]] | None,
) -> list[KnownSlot]:
    """Store one sample of a source; return the slots that were sampled.

    ``slots`` has, by name, the facts of each slot and its sample's columns. ``missing`` has the
    columns for one of replview's slots that the server lacks, ``source_sample`` those of
    ``SourceSample``. ``subscriptions`` has their facts by name; None if this role may not read
    them.
    """

    def write() -> list[KnownSlot]:
        with transaction.atomic():
            known_slots = identify(source_id, set(slots), sampled_at)
            columns = {slot.name: slots[slot.name][1] for slot in known_slots if slot.name in slots}
            rows = [{"slot_id": slot.id, **columns.get(slot.name, missing)} for slot in known_slots]
            _insert_samples(rows, sampled_at)  # first, since update_seen() changes last_seen_at
            update_seen(
                [(slot, slots[slot.name][0]) for slot in known_slots if slot.name in slots],
                sampled_at,
            )
            SourceSample.objects.create(source_id=source_id, sampled_at=sampled_at, **source_sample)
            _store_subscriptions(source_id, subscriptions, sampled_at)
        return known_slots

    return _with_partitions(write)


def store_unreachable(source_id: int, took_seconds: float) -> None:
    """Store a sample of a source that did not answer."""

    def write() -> None:
        with transaction.atomic():
            SourceSample.objects.create(
                source_id=source_id,
                sampled_at=dt.datetime.now(dt.UTC),
                reachable=False,
                took_seconds=took_seconds,
            )

    _with_partitions(write)


def store_source(source_id: int, **facts: Any) -> None:
    """Update the source's row with these facts and the time of the check."""
    Source.objects.filter(pk=source_id).update(checked_at=dt.datetime.now(dt.UTC), **facts)


def _insert_samples(rows: list[dict[str, Any]], sampled_at: dt.datetime) -> None:
    if rows:
        rows_json = orjson.dumps(rows).decode()
        params: dict[str, Any] = {
            "rows": rows_json,
            "at": sampled_at,
            "live": _RECEIVER_SECONDS,
            "latest": _MOST_TRANSACTIONS,
        }
        with connection.cursor() as cursor:
            cursor.execute(_INSERT_SAMPLES, params)


def _with_partitions(write: Callable[[], Written]) -> Written:
    """Run ``write``; create missing partitions and retry (beat was away over midnight)."""
    try:
        return write()
    except IntegrityError:
        make_partitions()
        return write()


def _store_subscriptions(
    source_id: int, subscriptions: dict[str, dict[str, Any]] | None, sampled_at: dt.datetime
) -> None:
    """Store the subscriptions, and mark the missing ones as gone."""
    if subscriptions is None:
        return
    watched = WatchedSubscription.objects.filter(source_id=source_id)
    former = dict(watched.values_list("name", "facts"))
    if set(former) - set(subscriptions):
        watched.exclude(name__in=subscriptions).filter(gone_at=None).update(gone_at=sampled_at)
    for name, facts in subscriptions.items():
        stored = facts | {"failed_at": _failed_at(former.get(name) or {}, facts, sampled_at)}
        defaults = {"facts": stored, "last_seen_at": sampled_at, "gone_at": None}
        WatchedSubscription.objects.update_or_create(
            source_id=source_id, name=name, defaults=defaults
        )


def _failed_at(
    former: dict[str, Any], facts: dict[str, Any], sampled_at: dt.datetime
) -> str | None:
    """Return when the subscription's error counts last rose; None if they never did.

    A failing worker restarts every few seconds, so whether one runs now says little.
    """
    for name in ("apply_error_count", "sync_error_count"):
        before, now = former.get(name), facts.get(name)
        if isinstance(before, int) and isinstance(now, int) and now > before:
            return sampled_at.isoformat()
    is_same = former.get("oid") == facts.get("oid")
    return former.get("failed_at") if is_same else None


def slot_facts(states: SlotStates, name: str) -> dict[str, Any] | None:
    """Return all facts about a slot, named as in its views; None if there is no such slot."""
    slot = states.slots.get(name)
    if slot is None:
        return None
    facts = dict(slot)
    counters = states.counters.get(name)
    if counters is not None:
        facts |= {key: value for key, value in counters.items() if key != "slot_name"}
    walsender = states.walsenders.get(slot["active_pid"] or 0)
    if walsender is not None:
        facts |= {key: walsender[key] for key in _WALSENDER_COLUMNS if key in walsender}
    if lost_reason(facts):
        facts["retained_wal_bytes"] = facts["unconfirmed_wal_bytes"] = None
    return {key: plain(value) for key, value in facts.items()}


def sample_columns(facts: dict[str, Any] | None, states: SlotStates) -> dict[str, object]:
    """Return a sample's columns; for a missing slot only the server's position is known."""
    lsn = states.current_lsn
    columns: dict[str, Any] = {"current_lsn": None if lsn is None else str(lsn)}
    if facts is None:
        return {**columns, "detail": {"missing": True}}
    columns |= {column: facts[fact] for fact, column in _COLUMN_OF_FACT.items() if fact in facts}
    columns["detail"] = {
        key: value
        for key, value in facts.items()
        if value is not None and key not in _NOT_IN_DETAIL
    }
    return columns


def plain(value: object) -> Any:
    """Convert a value to JSON types: times to text, strings shortened and without NUL."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dt.datetime):
        # These are clock readings, so none is infinite.
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, str):
        return value[:_TEXT_LIMIT].replace("\0", "")
    return value
