"""Encode changes as rows of ``change`` in binary COPY format: the receiver's hot loop.

One call of ``encode`` costs about 2 µs a change; work that is needed once a run or once a table is
kept out of the loop. See ``store.write.copy_rows`` for the layout and ``store.models.Change`` for
the form of the values.
"""

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import orjson
import psycopg
import xxhash
from django.conf import settings

from decoder.events import ChangeEvent, Truncation
from decoder.messages import UNCHANGED, LogicalMessage
from replview.receiver.actors import note_actor
from replview.receiver.large_values import SHORT_BYTES, LargeMessage, SpooledValue, too_large
from replview.receiver.storing.marked_values import Aside, as_json
from replview.receiver.storing.table_plans import TablePlan, TablePlans
from replview.store.read.rows import NULL_MARK, SEPARATOR
from replview.store.write import copy_rows
from replview.store.write.copy_rows import (
    NULL,
    CopiedTransaction,
    LargeText,
    pack_hash,
    pack_jsonb,
    pack_seq_lsn,
    pack_subxid,
    pieces_of,
    row_head,
    row_table,
)

#: Bytes from which a piece is sent to the store.
PIECE_BYTES = 256 * 1024

#: Operations with a whole new row and nothing else: inserts, and a baseline's rows.
_WHOLE_ROWS = ("I", "S")
_NO_OLD = NULL + NULL
_MESSAGE_HEAD = row_table(None, None, "M")
_OLD_KINDS = {"K": b"\x00\x00\x00\x01K", "O": b"\x00\x00\x00\x01O"}
_digest = xxhash.xxh3_64_intdigest
_dumps = orjson.dumps
#: The decoder's mark for a value that it could not decode is a dataclass: pass it to ``as_json``.
_MARKS = orjson.OPT_PASSTHROUGH_DATACLASS
#: orjson's form of the mark for a value that was not sent. An update that a row filter turned into
#: an insert can have one; searching the document for it costs a tenth of searching the values.
_UNCHANGED = _dumps(UNCHANGED)
#: Number of subtransactions, the latest ones of one transaction, whose changes are counted apart.
COUNTED_SUBTRANSACTIONS: Final = 50_000
#: Index of an operation in a row's counts of one relation. A baseline's rows count as inserts.
_OPERATION: Final = {"I": 0, "U": 1, "D": 2, "T": 3, "S": 0}


@contextmanager
def copying_changes(
    connection: psycopg.Connection[Any], plans: TablePlans
) -> Iterator["ChangeEncoder"]:
    """Open a COPY into ``change`` for the block, and yield its encoder.

    After the block, the caller stores the encoder's ``asides``: values that are too long for JSONB.
    """
    with connection.cursor().copy(copy_rows.COPY_CHANGES) as copy:
        copy.write(copy_rows.COPY_HEADER)
        encoder = ChangeEncoder(plans, copy.write)
        yield encoder
        encoder.flush()
        copy.write(copy_rows.COPY_TRAILER)


class ChangeEncoder:
    """An encoder of runs of changes, which passes the bytes to ``write`` in pieces."""

    def __init__(self, plans: TablePlans, write: Callable[[bytes], object]) -> None:
        self._plans = plans
        self._write = write
        self._parts: list[bytes] = []
        self._size_bytes = 0
        #: Values too long for JSONB, which are stored after the COPY.
        self.asides: list[LargeText] = []
        #: Bytes from which a document's longest values are stored apart: JSONB ends at 268,435,455.
        self._aside_bytes = settings.VALUE_ASIDE_BYTES
        #: Large values in the document that was written last.
        self._met: list[SpooledValue] = []

    def flush(self) -> None:
        """Pass the buffered bytes to ``write``."""
        if self._parts:
            self._write(b"".join(self._parts))
            self._parts.clear()
            self._size_bytes = 0

    def encode(self, row: CopiedTransaction, changes: list[ChangeEvent]) -> None:
        """Encode one run of changes, and add it to the counters of its transaction's row."""
        head = row_head(row.id)
        parts, met, as_json = self._parts, self._met, self._as_json
        plan: TablePlan | None = None
        plain: TablePlan | None = None  # The plan, if changes take the fast path.
        relation, op, table, started = None, "", b"", 0
        for index, change in enumerate(changes):
            seq, lsn, subxid, change_relation, change_op, _kind, _old, new = change
            if change_relation is not relation or change_op != op:
                _count_run(row, plan, op, index - started)
                relation, op, started = change_relation, change_op, index
                plan = None if relation is None else self._plans.get(relation)
                plain = plan if op in _WHOLE_ROWS else None
                if plain is not None:
                    table = plain.heads[op]
            if plain is not None and subxid is None:
                # The fast path: a whole new row and nothing else.
                row_values = dict(zip(plain.names, new))  # type: ignore[arg-type]  # noqa: B905 - equal, decoded
                if plain.has_rules:
                    plain.hide(row_values)
                document = _dumps(row_values, as_json, _MARKS)
                size = len(document)
                if size < self._aside_bytes and _UNCHANGED not in document and not met:
                    key = plain.single_key
                    if key >= 0 and (value := new[key]).__class__ is str:  # type: ignore[index]
                        hashed = pack_hash(8, _digest(value.encode()))
                    else:
                        hashed = _hashed(plain, new, None)  # type: ignore[arg-type]
                    parts += (head, pack_seq_lsn(4, seq, 8, lsn), table, hashed, NULL, _NO_OLD,
                              pack_jsonb(size + 1, 1), document, NULL)  # fmt: skip
                    self._size_bytes += size + 80
                    if self._size_bytes > PIECE_BYTES:
                        self.flush()
                    continue
            self._encode_any(row, head, plan, change)
            if self._size_bytes > PIECE_BYTES:
                self.flush()
        _count_run(row, plan, op, len(changes) - started)

    def encode_message(self, row: CopiedTransaction, lsn: int, document: dict[str, Any]) -> None:
        """Encode the single change of a non-transactional message."""
        self._parts += (
            row_head(row.id), pack_seq_lsn(4, 1, 8, lsn), _MESSAGE_HEAD, NULL, NULL, _NO_OLD,
            self._jsonb(row, 1, "new", document), NULL,
        )  # fmt: skip
        self._size_bytes += len(self._parts[-2]) + 80

    def _encode_any(
        self, row: CopiedTransaction, head: bytes, plan: TablePlan | None, change: ChangeEvent
    ) -> None:
        """Encode a change that cannot take the fast path."""
        seq, lsn, subxid, relation, op, _old_kind, _old, new = change
        if relation is None:
            assert isinstance(new, LogicalMessage)
            note_actor(row, new, seq)
            message = self._jsonb(row, seq, "new", message_document(new))
            parts = (_MESSAGE_HEAD, NULL, _NO_OLD, message, NULL)
        elif plan is None:
            raise KeyError(f"no plan for relation {relation.oid}")
        elif isinstance(new, Truncation):
            document = {"cascade": new.cascade, "restart_identity": new.restart_identity}
            truncation = self._jsonb(row, seq, "new", document)
            parts = (plan.heads["T"], NULL, _NO_OLD, truncation, NULL)
        else:
            parts = self._row_parts(row, plan, change)
        if subxid is not None:
            count_subtransaction(row, subxid, plan.relation_id if plan else None, op)
        subxid_bytes = NULL if subxid is None else pack_subxid(8, subxid)
        table, hashed, old_bytes, new_bytes, old_hash = parts
        self._parts += (
            head, pack_seq_lsn(4, seq, 8, lsn), table, hashed, subxid_bytes, old_bytes,
            new_bytes, old_hash,
        )  # fmt: skip
        self._size_bytes += len(old_bytes) + len(new_bytes) + 80

    def _row_parts(
        self, row: CopiedTransaction, plan: TablePlan, change: ChangeEvent
    ) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """Encode an insert, update or delete.

        Returns table, key hash, old kind and row, new row, and the old key's hash if it differs.
        """
        old, new = change.old, change.new
        assert new is None or isinstance(new, list)
        if old is None:
            old_bytes = _NO_OLD
        else:
            assert change.old_kind is not None
            document = self._document(row, plan, change.seq, "old", old)
            old_bytes = _OLD_KINDS[change.old_kind] + document
        new_bytes = NULL if new is None else self._document(row, plan, change.seq, "new", new)
        if not plan.key_positions:
            return plan.heads[change.op], NULL, old_bytes, new_bytes, NULL
        hashed = _hashed(plan, new or old or [], old)
        old_hash = NULL
        if old is not None and new is not None:
            former_hash = _hashed(plan, old, None)
            old_hash = former_hash if former_hash != hashed else NULL
        return plan.heads[change.op], hashed, old_bytes, new_bytes, old_hash

    def _document(
        self, row: CopiedTransaction, plan: TablePlan, seq: int, side: str, values: list[Any]
    ) -> bytes:
        """Return a row as JSONB, without what was not sent or must not be stored."""
        if side == "new" and UNCHANGED not in values:
            document = dict(zip(plan.names, values, strict=True))
            if plan.has_rules:
                plan.hide(document)
        else:
            document = plan.document(values)
        return self._jsonb(row, seq, side, document)

    def _jsonb(
        self, row: CopiedTransaction, seq: int, side: str, document: dict[str, Any]
    ) -> bytes:
        """Return a document as JSONB; values too long for that are stored apart, or not at all."""
        self._met.clear()
        encoded = _dumps(document, self._as_json, _MARKS)
        if len(encoded) >= self._aside_bytes or self._met:
            position = row.id, seq, side
            for name, value in document.items():
                if isinstance(value, SpooledValue):
                    self.asides.append(LargeText(*position, name, value.pieces()))
                elif isinstance(value, str) and len(value) > SHORT_BYTES:
                    document[name] = self._set_aside(position, name, value)
            encoded = _dumps(document, as_json, _MARKS)
            self._met.clear()
        return pack_jsonb(len(encoded) + 1, 1) + encoded

    def _set_aside(self, position: tuple[int, int, str], name: str, value: str) -> object:
        """Queue a value to be stored apart from its row, unless it is too large for that.

        Returns what the row holds in the value's place.
        """
        if len(value) > settings.VALUE_LIMIT_BYTES:
            encoded = value.encode()
            return too_large(len(encoded), hashlib.sha256(encoded).hexdigest())
        self.asides.append(LargeText(*position, name, pieces_of(value)))
        return Aside(len(value))

    def _as_json(self, value: object) -> dict[str, object]:
        if isinstance(value, SpooledValue):
            self._met.append(value)
        return as_json(value)


def _hashed(plan: TablePlan, values: list[Any], fallback: list[Any] | None) -> bytes:
    """Return the packed hash of the key; NULL where a part of the key is unknown.

    ``fallback`` is the old key: it has a toasted key's value where the new row says unchanged.
    """
    texts = []
    for position in plan.key_positions:
        value = values[position]
        if value is UNCHANGED and fallback is not None:
            value = fallback[position]
        if value is None:
            value = NULL_MARK
        if value.__class__ is not str:
            return NULL
        texts.append(value)
    if not texts:
        return NULL
    return pack_hash(8, _digest(SEPARATOR.join(texts).encode()))


def message_document(message: LogicalMessage) -> dict[str, object]:
    """Return a logical message in the form of ``new``; its content is text where possible."""
    document: dict[str, Any] = {"prefix": message.prefix}
    if isinstance(message, LargeMessage):
        document["content"] = message.stands_for
        document["transactional"] = message.transactional
        return document
    try:
        content = message.content.decode()
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        document["content_base64"] = b64encode(message.content).decode("ascii")
    else:
        document["content"] = content
    document["transactional"] = message.transactional
    return document


def _count_run(row: CopiedTransaction, plan: TablePlan | None, op: str, number: int) -> None:
    if number:
        count(row, None if plan is None else plan.relation_id, op, number)


def count(row: CopiedTransaction, relation_id: int | None, op: str, number: int) -> None:
    """Add ``number`` changes of one kind to a transaction's counters; a negative one subtracts.

    A table whose counts all become 0 is removed from the transaction's tables.
    """
    if relation_id is None:
        row.messages += number
        return
    kind = _OPERATION[op]
    counts = row.relations.get(relation_id)
    if counts is None:
        counts = row.relations[relation_id] = [0, 0, 0, 0]
    counts[kind] += number
    if number < 0 and not any(counts):
        del row.relations[relation_id]
    if kind == 0:
        row.inserts += number
    elif kind == 1:
        row.updates += number
    elif kind == 2:
        row.deletes += number
    else:
        row.truncates += number


def count_subtransaction(
    row: CopiedTransaction, subxid: int, relation_id: int | None, op: str
) -> None:
    """Count one change of a subtransaction, so that its abort can be subtracted."""
    subxid_counts = row.subxid_changes
    counts = subxid_counts.get(subxid)
    if counts is None:
        if subxid <= row.forgotten_subxid:
            return  # Its counts may be incomplete: its abort counts them in the store.
        if len(subxid_counts) >= COUNTED_SUBTRANSACTIONS:
            oldest = next(iter(subxid_counts))
            del subxid_counts[oldest]
            row.forgotten_subxid = max(row.forgotten_subxid, oldest)
        counts = subxid_counts[subxid] = {}
    kind = relation_id, op
    counts[kind] = counts.get(kind, 0) + 1


def take_back(row: CopiedTransaction, counts: Mapping[tuple[int | None, str], int]) -> int:
    """Subtract the changes of an aborted subtransaction; return how many they were."""
    for kind, number in counts.items():
        count(row, *kind, -number)
        row.taken_back[kind] = row.taken_back.get(kind, 0) + number
    number = sum(counts.values())
    row.aborted_changes += number
    return number


def give_back(row: CopiedTransaction) -> None:
    """Add up all changes of a transaction that aborted as a whole, aborted savepoints included."""
    for kind, number in row.taken_back.items():
        count(row, *kind, number)
    row.taken_back, row.aborted_changes = {}, 0
