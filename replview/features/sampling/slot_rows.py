"""What a look told of the slots, as rows for the store: facts of now and a sample of each.

A slot that is lost retains nothing and delivers nothing: its distances are unknown, never zero, and
never what its last positions would give.
"""

from typing import Any

from replview.catalog.state.slot_states import SlotStates

#: pg_replication_slots' own names of what a sample has in columns.
_COLUMNS = {
    "restart_lsn": "restart_lsn",
    "confirmed_flush_lsn": "confirmed_flush_lsn",
    "wal_status": "wal_status",
    "active": "active",
    "safe_wal_size": "safe_wal_bytes",
    "retained_wal_bytes": "retained_wal_bytes",
    "unconfirmed_wal_bytes": "unconfirmed_wal_bytes",
    "write_lag_seconds": "write_lag_seconds",
    "flush_lag_seconds": "flush_lag_seconds",
    "replay_lag_seconds": "replay_lag_seconds",
    "spill_txns": "spill_txns",
    "spill_bytes": "spill_bytes",
    "stream_txns": "stream_txns",
    "stream_bytes": "stream_bytes",
    "total_txns": "total_txns",
    "total_bytes": "total_bytes",
}
#: Of a walsender, what is not its slot's already or tells nothing over time.
_WALSENDER = (
    "pid", "usesysid", "usename", "application_name", "client_addr", "client_hostname",
    "client_port", "backend_start", "backend_xmin", "state", "sent_lsn", "write_lsn", "flush_lsn",
    "replay_lsn", "write_lag_seconds", "flush_lag_seconds", "replay_lag_seconds", "sync_priority",
    "sync_state", "reply_time",
)  # fmt: skip
#: Told by the watched slot, which holds for all samples, or by the sample's own columns.
_NOT_IN_DETAIL = {"slot_name", "slot_type", "datoid", "database", "temporary", *_COLUMNS}
_TEXT_LIMIT = 400


def slot_facts(states: SlotStates, name: str) -> dict[str, Any] | None:
    """Everything told of a slot, under the names its views use; None: there is no such slot."""
    slot = states.slots.get(name)
    if slot is None:
        return None
    facts = dict(slot)
    counted = states.counters.get(name)
    if counted is not None:
        facts |= {key: value for key, value in counted.items() if key != "slot_name"}
    walsender = states.walsenders.get(slot["active_pid"] or 0)
    if walsender is not None:
        facts |= {key: walsender[key] for key in _WALSENDER if key in walsender}
    if is_lost(facts):
        facts["retained_wal_bytes"] = facts["unconfirmed_wal_bytes"] = None
    return {key: _plain(value) for key, value in facts.items()}


def is_lost(facts: dict[str, Any]) -> bool:
    """Whether the slot can deliver no more: its WAL, or rows it needs, are gone."""
    return facts.get("wal_status") == "lost" or facts.get("invalidation_reason") is not None


def sample_columns(facts: dict[str, Any] | None, states: SlotStates) -> dict[str, Any]:
    """A sample's columns; of a slot that is not there, all but the position is unknown."""
    lsn = states.current_lsn
    columns: dict[str, Any] = {"current_lsn": None if lsn is None else str(lsn)}
    if facts is None:
        return {**columns, "detail": {"missing": True}}
    columns |= {ours: facts[theirs] for theirs, ours in _COLUMNS.items() if theirs in facts}
    columns["detail"] = {
        key: value
        for key, value in facts.items()
        if value is not None and key not in _NOT_IN_DETAIL
    }
    return columns


def _plain(value: Any) -> Any:
    """Names as told, without what JSONB refuses."""
    if isinstance(value, str):
        return value[:_TEXT_LIMIT].replace("\0", "")
    return value
