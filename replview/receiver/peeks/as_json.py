"""A change that was looked at, in the one JSON form of a change; what is not known is null."""

import base64
import datetime as dt
from typing import Any

from decoder.events import Change, OpenTransaction, StandaloneMessage, Truncation
from decoder.messages import LogicalMessage, Relation
from decoder.scalars import LSN, datetime_from_us
from decoder.tuples import NoValue, Undecoded, Value

#: A longer value is cut, and says so.
VALUE_CHARACTERS = 500
_OPERATIONS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate", "M": "message"}


def change_record(transaction: OpenTransaction, change: Change) -> dict[str, Any]:
    """One change of a transaction."""
    commit_us = transaction.commit_time_us
    record = _record(change.op)
    record |= {
        "xid": transaction.xid,
        "gid": transaction.gid,
        "commit_lsn": _lsn(transaction.final_lsn),
        "commit_time": utc_text(None if commit_us is None else datetime_from_us(commit_us)),
        "origin": transaction.origin,
        "seq": change.seq,
        "lsn": _lsn(change.lsn),
        "subxid": change.subxid,
    }
    if isinstance(change.new, LogicalMessage):
        return record | _message(change.new)
    assert change.relation is not None
    record |= {
        "schema": change.relation.namespace,
        "table": change.relation.name,
        "relation_oid": change.relation.oid or None,
    }
    if isinstance(change.new, Truncation):
        return record | change.new._asdict()
    names = change.relation.names
    sent = change.old if change.op == "D" else change.new
    return record | {
        "key": _key(change.relation, change.old, change.new),
        "old": _row(names, change.old),
        "new": _row(names, change.new),
        "not_sent": [
            name
            for name, value in zip(names, sent or [], strict=bool(sent))
            if isinstance(value, NoValue)
        ],
    }


def message_record(event: StandaloneMessage) -> dict[str, Any]:
    """A message outside any transaction."""
    return _record("M") | {"seq": 1, "lsn": _lsn(event.message.lsn)} | _message(event.message)


def utc_text(moment: dt.datetime | None) -> str | None:
    """``2026-11-20T07:57:11.369827Z``."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _record(op: str) -> dict[str, Any]:
    names = (
        "slot incarnation commit_seq xid gid commit_lsn end_lsn commit_time origin actor context "
        "seq lsn subxid"
    )
    record: dict[str, Any] = dict.fromkeys(names.split())
    record["op"] = _OPERATIONS[op]
    record |= dict.fromkeys(["schema", "table", "relation_oid", "version", "key", "old", "new"])
    return record | {"not_sent": []}


def _message(message: LogicalMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"prefix": message.prefix}
    try:
        told["content"] = _cut(message.content.decode())
    except UnicodeDecodeError:
        told["content_base64"] = _cut(base64.b64encode(message.content).decode())
    return told | {"transactional": message.transactional}


def _key(relation: Relation, old: Any, new: Any) -> dict[str, Any] | None:
    """The identity's columns, before the change if they were sent; under FULL nobody told."""
    if relation.replica_identity in ("FULL", "NOTHING") or not relation.key_indexes:
        return None
    key = {}
    for index in relation.key_indexes:
        value = next((r[index] for r in (old, new) if r and not isinstance(r[index], NoValue)), new)
        if value is new:
            return None
        key[relation.names[index]] = _value(value)
    return key


def _row(names: tuple[str, ...], values: Any) -> dict[str, Any] | None:
    if values is None:
        return None
    pairs = zip(names, values, strict=True)
    return {name: _value(value) for name, value in pairs if not isinstance(value, NoValue)}


def _value(value: Value) -> Any:
    if isinstance(value, Undecoded):
        name = "$binary" if value.format == "binary" else "$bytes"
        return {name: _cut(base64.b64encode(value.raw).decode()), "$type": value.type_oid}
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    if len(text) <= VALUE_CHARACTERS:
        return text
    return f"{text[:VALUE_CHARACTERS]}… ({len(text):,} characters)"


def _lsn(value: int | None) -> str | None:
    return str(LSN(value)) if value else None
