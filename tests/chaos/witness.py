"""The reference: what an untouched slot on the same source tells, read by a parser of its own.

The witness slot is made together with the slot under test, never read before the end, and read in
the plainest way there is: pgoutput's protocol 1, no streaming, no two-phase, every transaction
whole at its commit. The parser shares nothing with replview's decoder.

Source: PostgreSQL documentation, "Logical Replication Message Formats".
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

#: Stands for a value that the server did not send.
NOT_SENT = "\0not sent"

_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL,
    'proto_version', '1', 'publication_names', %s{})
"""

#: A row as the stream told it: column → text, None (NULL) or ``NOT_SENT``.
Row = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class WitnessChange:
    """One change in the form both sides are compared in."""

    op: str
    table: str
    old: tuple[tuple[str, str | None], ...] = ()
    new: tuple[tuple[str, str | None], ...] = ()


@dataclass(slots=True)
class WitnessTransaction:
    """A transaction, or (xid None) a message that belongs to none."""

    xid: int | None
    commit_lsn: int | None
    end_lsn: int | None
    origin: str | None = None
    changes: list[WitnessChange] = field(default_factory=list)


def read_witness(
    source: psycopg.Connection[Any], slot: str, publication: str
) -> list[WitnessTransaction]:
    """Everything since the slot was made, in commit order; moves nothing."""
    with source.cursor(binary=True) as cursor:
        messages = ", 'messages', 'true'" if source.info.server_version >= 140000 else ""
        cursor.execute(_PEEK.format(messages), [slot, publication])
        return list(_transactions(bytes(row[0]) for row in cursor))


def _transactions(messages: Iterator[bytes]) -> Iterator[WitnessTransaction]:
    relations: dict[int, tuple[str, list[tuple[str, bool]]]] = {}
    current: WitnessTransaction | None = None
    for data in messages:
        read = _Cursor(data, 1)
        match chr(data[0]):
            case "B":
                commit_lsn, _, xid = read.take("!QqI")
                current = WitnessTransaction(xid, commit_lsn, None)
            case "C":
                assert current is not None
                _, _, current.end_lsn, _ = read.take("!BQQq")
                yield current
                current = None
            case "O":
                assert current is not None
                read.take("!Q")
                current.origin = read.text()
            case "R":
                oid, name, columns = _relation(read)
                relations[oid] = name, columns
            case "M":
                flags, lsn = read.take("!BQ")
                change = WitnessChange("message", "", new=(("prefix", read.text()), read.content()))
                if flags:
                    assert current is not None
                    current.changes.append(change)
                else:
                    yield WitnessTransaction(None, None, lsn, None, [change])
            case "T":
                assert current is not None
                count, flags = read.take("!IB")
                how = (("cascade", str(bool(flags & 1))), ("restart", str(bool(flags & 2))))
                for _ in range(count):
                    (oid,) = read.take("!I")
                    current.changes.append(WitnessChange("truncate", relations[oid][0], new=how))
            case "I" | "U" | "D" as tag:
                assert current is not None
                current.changes.append(_change(tag, read, relations))


def _relation(read: "_Cursor") -> tuple[int, str, list[tuple[str, bool]]]:
    (oid,) = read.take("!I")
    name = f"{read.text()}.{read.text()}"
    _, count = read.take("!ch")
    columns = []
    for _ in range(count):
        (flags,) = read.take("!B")
        columns.append((read.text(), bool(flags & 1)))
        read.take("!Ii")
    return oid, name, columns


def _change(
    tag: str, read: "_Cursor", relations: dict[int, tuple[str, list[tuple[str, bool]]]]
) -> WitnessChange:
    (oid,) = read.take("!I")
    table, columns = relations[oid]
    old: Row = {}
    new: Row = {}
    while not read.at_end:
        (kind,) = read.take("!c")
        row = read.row([name for name, _ in columns])
        if kind == b"N":
            new = row
        elif kind == b"K":
            # A NULL there stands for "not in the identity".
            old = {name: row[name] for name, in_key in columns if in_key}
        else:
            old = row
    op = {"I": "insert", "U": "update", "D": "delete"}[tag]
    return WitnessChange(op, table, tuple(sorted(old.items())), tuple(sorted(new.items())))


class _Cursor:
    """Reads one message from its start."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return found

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        found = self._data[self._at : end]
        self._at = end + 1
        return found.decode()

    def content(self) -> tuple[str, str]:
        """A message's content, by its bytes in hex."""
        (length,) = self.take("!I")
        found = self._data[self._at : self._at + length]
        self._at += length
        return "content", found.hex()

    def row(self, names: list[str]) -> Row:
        (count,) = self.take("!h")
        assert count == len(names), f"{count} values for the columns {names}"
        row: Row = {}
        for name in names:
            (kind,) = self.take("!c")
            if kind == b"n":
                row[name] = None
            elif kind == b"u":
                row[name] = NOT_SENT
            else:
                (length,) = self.take("!I")
                row[name] = self._data[self._at : self._at + length].decode()
                self._at += length
        return row
