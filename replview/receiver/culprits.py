"""Find the change of a batch that the store refuses, by trial inserts that are rolled back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from decoder.events import (
    ChangeEvent,
    ChangeRun,
    Event,
    OpenTransaction,
    RelationSeen,
    StandaloneMessage,
)
from decoder.reader import ProtocolError
from decoder.scalars import now_us
from replview.receiver.storing.encoding import copying_changes, message_document
from replview.receiver.storing.table_plans import TablePlans
from replview.store.write.copy_rows import CopiedTransaction
from replview.store.write.partitions import TransactionIds

#: Bytes of an XLogData frame before the message.
_HEADER_BYTES = 25
#: SQLSTATE classes that blame the data rather than the state of the store: data exception,
#: integrity constraint violation, program limit exceeded, PL/pgSQL error, WITH CHECK OPTION
#: violation.
_ABOUT_DATA = ("22", "23", "54", "P0", "44")
#: One row of the table ``change``: a change of a transaction, or (without one) a standalone
#: message.
_ChangeOfTransaction = tuple[OpenTransaction | None, ChangeEvent | StandaloneMessage]


@dataclass(frozen=True, slots=True)
class Culprit:
    """A message that cannot be stored, and the cause, which never quotes a value."""

    cause: str
    lsn: int | None
    relation: str
    tag: str
    #: The message as received, without the XLogData header.
    raw: bytes
    xid: int | None = None
    gid: str | None = None
    final_lsn: int | None = None


class Unstorable(Exception):
    """A change that cannot be stored, however often it is tried."""

    def __init__(self, culprit: Culprit) -> None:
        super().__init__(culprit.cause)
        self.culprit = culprit


def blames_data(error: Exception) -> bool:
    """Return whether a failure may be due to one value, not to the state of the store."""
    if isinstance(error, psycopg.Error):
        return bool(error.sqlstate) and str(error.sqlstate).startswith(_ABOUT_DATA)
    return True


def undecodable(error: ProtocolError) -> Culprit:
    """Return the culprit for a message that the decoder could not decode."""
    frame = error.frame or b""
    payload = frame[_HEADER_BYTES:]
    return Culprit(
        cause=f"the message is not what the protocol allows ({error})",
        lsn=int.from_bytes(frame[1:9], "big") or None,
        relation=error.relation,
        tag=payload[:1].decode("latin-1"),
        raw=payload,
        xid=error.xid,
        gid=error.gid,
        final_lsn=error.final_lsn,
    )


class StoreTrial:
    """A trial stores changes in transactions that are always rolled back."""

    def __init__(self, connection: psycopg.Connection[Any], plans: TablePlans) -> None:
        self._connection = connection
        self._plans = plans
        self._ids = TransactionIds()

    def find(
        self, events: Iterable[Event], frames: Sequence[bytes], *, in_stream: bool
    ) -> Culprit | None:
        """Return the first change of a batch that the store refuses; None if there is none.

        ``frames`` are the frames that the events were decoded from; ``in_stream`` says whether they
        begin inside a stream block. Raises ``psycopg.Error`` when the store cannot be reached.
        """
        events = list(events)
        changes = [row for event in events for row in _rows_of(event)]
        with self._connection.transaction(force_rollback=True):
            for event in events:
                if isinstance(event, RelationSeen) and self._plans.get(event.relation) is None:
                    self._plans.make(self._connection, event.relation, lsn=event.lsn, xid=event.xid)
            refused = self._first_refused(changes)
        if refused is None:
            return None
        index, cause = refused
        transaction, change = changes[index]
        relation, lsn, tag = None, 0, "M"
        if isinstance(change, StandaloneMessage):
            # ``quarantine.Skips.for_message`` finds a standalone message by this position.
            lsn = change.message.lsn
        else:
            relation, lsn, tag = change.relation, change.lsn, change.op
        name = "" if relation is None else f"{relation.namespace}.{relation.name}"
        return Culprit(
            cause=f"the store refused a change of {name or 'a logical message'} ({cause})",
            lsn=lsn or None,
            relation=name,
            tag=tag,
            raw=_message_of(frames, index, tag, in_stream=in_stream),
            xid=None if transaction is None else transaction.xid,
            gid=None if transaction is None else transaction.gid,
            final_lsn=None if transaction is None else transaction.final_lsn,
        )

    def _first_refused(self, changes: Sequence[_ChangeOfTransaction]) -> tuple[int, str] | None:
        """Return index and cause of the first refused change (found by bisection), or None."""
        if self._refusal(changes) is None:
            return None
        low, high = 0, len(changes)
        while high - low > 1:
            middle = (low + high) // 2
            if self._refusal(changes[low:middle]) is None:
                low = middle
            else:
                high = middle
        cause = self._refusal(changes[low:high])
        return None if cause is None else (low, cause)

    def _refusal(self, changes: Sequence[_ChangeOfTransaction]) -> str | None:
        """Return why changes cannot be stored (kind of error, never a value); None if they can."""
        # Build the rows first: allocating their identifiers uses the connection that is about to
        # copy.
        transactions = {id(transaction): transaction for transaction, _ in changes}
        rows = {key: self._row(transaction) for key, transaction in transactions.items()}
        try:
            with (
                self._connection.transaction(force_rollback=True),
                copying_changes(self._connection, self._plans) as encoder,
            ):
                for transaction, change in changes:
                    row = rows[id(transaction)]
                    if isinstance(change, StandaloneMessage):
                        document = message_document(change.message)
                        encoder.encode_message(row, change.message.lsn, document)
                    else:
                        encoder.encode(row, [change])
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            constraint = error.diag.constraint_name
            return f"{type(error).__name__}{f' of {constraint}' if constraint else ''}"
        except Exception as error:
            return type(error).__name__
        return None

    def _row(self, transaction: OpenTransaction | None) -> CopiedTransaction:
        """Return a provisional row for a transaction, in place of the one that receiving stores."""
        identifier = self._ids.next(self._connection)
        if transaction is None:
            return CopiedTransaction(identifier, 0, now_us(), None, "message")
        return CopiedTransaction(identifier, 0, now_us(), transaction.xid, "receiving")


def _rows_of(event: Event) -> list[_ChangeOfTransaction]:
    if isinstance(event, ChangeRun):
        return [(event.transaction, change) for change in event.changes]
    return [(None, event)] if isinstance(event, StandaloneMessage) else []


def _message_of(
    frames: Sequence[bytes], index: int, expected_tag: str, *, in_stream: bool
) -> bytes:
    """Return the message that contains the change number ``index`` (from 0) of these frames."""
    number = -1
    for frame in frames:
        payload = frame[_HEADER_BYTES:]
        tag = payload[:1]
        if tag in (b"S", b"E"):
            in_stream = tag == b"S"
        if tag == b"T":
            start = 5 if in_stream else 1
            number += int.from_bytes(payload[start : start + 4], "big")
        else:
            number += tag in (b"I", b"U", b"D", b"M")
        if number >= index:
            return payload if tag == expected_tag.encode() else b""
    return b""
