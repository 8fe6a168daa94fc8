"""The run of changes being collected, and the events it goes out with."""

from __future__ import annotations

from collections.abc import Mapping

from decoder.binary import UserType
from decoder.events import Change, ChangeRun, Event, OpenTransaction
from decoder.lifecycle import Lifecycle
from decoder.scalars import LSN
from decoder.stream import SessionState, Streaming
from decoder.values import ValueDecoder


class Collector:
    """What one session knows, and what the current feed has given so far."""

    __slots__ = (
        "_changes",
        "_events",
        "_lifecycle",
        "_run_size_bytes",
        "_run_transaction",
        "_session",
        "_values",
    )

    def __init__(
        self,
        *,
        proto_version: int,
        streaming: Streaming,
        encoding: str,
        binary: bool,
        user_types: Mapping[int, UserType] | None,
    ) -> None:
        self._session = SessionState(
            proto_version=proto_version, streaming=streaming, encoding=encoding
        )
        self._values = ValueDecoder(encoding, binary=binary, user_types=user_types)
        self._lifecycle = Lifecycle(self._session)
        self._events: list[Event] = []
        self._changes: list[Change] = []
        self._run_transaction: OpenTransaction | None = None
        self._run_size_bytes = 0

    @property
    def open_streams(self) -> tuple[OpenTransaction, ...]:
        """Streamed transactions begun and not ended, oldest first."""
        return tuple(self._lifecycle.streams.values())

    @property
    def in_transaction(self) -> bool:
        """Between a begin and its end, or inside a stream block."""
        return self._lifecycle.current is not None

    #: pgoutput leaves out what tells nothing; its keepalives say how far the server is.
    passed_lsn = 0

    @property
    def in_stream(self) -> bool:
        """Inside a stream block."""
        return self._session.stream_xid is not None

    def _in_run(self, kind: str) -> OpenTransaction:
        """The current transaction, which the run being collected is now of."""
        transaction = self._lifecycle.transaction(kind)
        if transaction is not self._run_transaction:
            self._end_run()
            self._run_transaction = transaction
        return transaction

    def _end_run(self) -> None:
        transaction = self._run_transaction
        if transaction is None:
            return
        changes = self._changes
        if changes:
            if transaction.first_lsn is None:
                known = next((change.lsn for change in changes if change.lsn), None)
                transaction.first_lsn = None if known is None else LSN(known)
            run = (transaction, changes, self._run_size_bytes)
            self._events.append(tuple.__new__(ChangeRun, run))
            self._changes = []
        self._run_transaction = None
        self._run_size_bytes = 0
