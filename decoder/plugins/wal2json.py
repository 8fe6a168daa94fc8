"""The decoder of wal2json, formats 1 and 2: JSON rows in, events out.

Transactions come whole and in commit order. A prepared one comes like any other,
at its COMMIT PREPARED, because the plugin does not support two-phase commit.

Format 2 has a row for the begin, each change and the commit. Format 1 has one
row for a whole transaction, however large; more than 1 GB ends the slot's
stream for good. With ``write-in-chunks``, which ``wal2json_options`` sets, format 1 too
has a row for each change and sends each change's position. Both forms of format 1
are decoded.

The lsn of a row, as seen on PostgreSQL 15, is the transaction's first record for a
begin; the record's start for a change; the record's end for a message; and the commit
record's *end*, which may be confirmed and is also sent as ``nextlsn``, for a commit.
For format 1's single row the SQL functions return that end, but a
walsender returns the first record, so ``include-lsn`` is needed there.

The left column lists what the plugin does not send, the right one the events' value:

=========================================  ===========================================
a table's oid, a typmod                    0, -1; ``Column.type_name`` has the type's
                                           name with its modifier (a name that is
                                           all in quotes loses them)
the replica identity                       ``None``; the key flag marks the primary key,
                                           which version 2.5 sends in format 1 only where
                                           it is the replica identity
an old row's kind                          ``O`` if it has every column of the table
                                           and these are not all its key, else ``K``
absence of an old row in an update         an identity that only repeats the new row is
                                           left out; under FULL, format 1 leaves NULLs
                                           out, so a row with NULLs that did not
                                           change loses its old row, too
a NULL in an old row under FULL            format 1: not written: ``NOT_SENT``, and the
                                           row a ``K``. Format 2: ``None``
NaN and ±Infinity of float and numeric     ``None``, as for NULL
unchanged TOAST                            ``UNCHANGED``, because the column is missing;
                                           so is a dropped column that could be TOASTed,
                                           until the table's next insert
updates and deletes without a replica      not sent at all
identity
TRUNCATE                                   format 1: not sent at all. Format 2:
                                           CASCADE and RESTART IDENTITY are ``None``
begin of the commit record                 format 1: ``commit_lsn`` is ``None``
position of a change                       format 1 without chunks: 0
prepared transactions                      plain ones, with the COMMIT PREPARED's
                                           position and time; no gid
subtransactions                            ``subxid`` is ``None``
the replication origin's name, its LSN     ``#`` and the origin's number; ``None``
a message from its first NUL byte on       lost; the caller decodes other content that is
                                           not in the session's encoding
=========================================  ===========================================

The plugin ignores publications: it sends every table of the database, with all its
columns and rows, stored generated columns too, and each partition by its own name.

Source: wal2json.c, versions 2.5 and 2.6.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from decoder.events import Truncation
from decoder.messages import NOT_SENT, UNCHANGED, Column, OldKind, Value
from decoder.plugins.collecting import PluginCollector
from decoder.plugins.shapes import ColumnsOf, Fit, SentColumn, TableName
from decoder.plugins.wal2json_rows import (
    Object,
    RowReader,
    SentRow,
    lsn_of,
    message_of,
    names_of,
    number_of,
    refused,
    table_of,
    time_us_of,
)
from decoder.plugins.wal2json_text import KIND, as_written, read_object
from decoder.reader import ProtocolError

_ALWAYS: Final = (
    "include-xids",
    "include-timestamp",
    "include-lsn",
    "include-types",
    "include-typmod",
    "include-type-oids",
    "include-origin",
    "include-pk",
)
_OPERATIONS: Final[Mapping[str, Literal["I", "U", "D"]]] = {
    "insert": "I",
    "update": "U",
    "delete": "D",
}
FormatVersion = Literal[1, 2]


def _as_sent(column: Column) -> SentColumn:
    name = column.type_name
    return SentColumn(column.name, None if name is None else as_written(name), column.type_oid)


def _repeats(old: SentRow, fit: Fit, new_values: list[Value]) -> bool:
    """Return whether the old row repeats values of the new one and adds nothing.

    Where the server logged no old row, wal2json sends the new row's key as one.
    """
    positions = range(len(new_values)) if fit.positions is None else fit.positions
    return all(
        value == new_values[position] for position, value in zip(positions, old.values, strict=True)
    )


def wal2json_options(format_version: FormatVersion) -> Mapping[str, str]:
    """Return the options with which the plugin sends most.

    They exclude ``include-default``, whose value the plugin does not escape, and
    ``numeric-data-types-as-string``, which would distinguish NaN from NULL but ends
    the session before version 2.6.
    """
    in_parts = {1: "write-in-chunks", 2: "include-transaction"}[format_version]
    return {"format-version": str(format_version), in_parts: "true"} | dict.fromkeys(
        _ALWAYS, "true"
    )


class Wal2JsonAssembler(PluginCollector):
    """A converter from the rows of one session, or one peek, to transaction events.

    Rows are those of ``pg_logical_slot_peek_changes()``. Through a walsender, the caller
    makes them from the message, its ``wal_start`` and xid 0. Give the plugin
    ``wal2json_options()``, and the session ``bytea_output=hex``.
    """

    plugin: ClassVar[str] = KIND

    def __init__(
        self, *, format_version: FormatVersion, columns_of: ColumnsOf | None = None
    ) -> None:
        """Take the format; ``columns_of`` gives the columns of a table not first seen in an insert.

        Raises ``ValueError`` for a format other than 1 and 2.
        """
        if format_version not in (1, 2):
            raise ValueError(f"format_version must be 1 or 2, not {format_version!r}")
        super().__init__(columns_of, _as_sent, keys_sent=True)
        self._format = format_version
        self._reader = RowReader()
        #: Format 1: the row that began the open transaction.
        self._begun: Object = {}

    def _take(self, lsn: int, xid: int, text: str) -> None:
        if self._format == 2:
            self._take_2(lsn, xid, text)
        else:
            self._take_1(lsn, xid, text)

    # Format 2.

    def _take_2(self, lsn: int, xid: int, text: str) -> None:
        row = read_object(text)
        action = row.get("action")
        if action == "B":
            self._began(row, lsn, xid)
            return
        if action == "C":
            end_lsn = lsn_of(row, "nextlsn") or lsn
            self._commit(number_of(row, "xid"), lsn_of(row, "lsn"), end_lsn, time_us_of(row))
            return
        lsn = lsn_of(row, "lsn") or lsn
        if action == "M":
            self._message(message_of(row, lsn))
        elif action == "T":
            self._truncate(lsn, table_of(row))
        elif action in ("I", "U", "D"):
            new = None if action == "D" else self._reader.objects(row.get("columns"))
            old = self._reader.objects(row["identity"]) if "identity" in row else None
            self._row(lsn, action, table_of(row), names_of(row.get("pk", [])), new, old)
        else:
            raise refused("an action of B, C, I, U, D, T or M")

    # Format 1.

    def _take_1(self, lsn: int, xid: int, text: str) -> None:
        row = text.strip()
        if row.endswith("["):
            self._begun = read_object(row + "]}")
            self._began(self._begun, lsn, xid)
        elif len(row) < 8 and "".join(row.split()) == "]}":
            self._ended(self._begun, lsn)
        else:
            part = read_object(row.removeprefix(","))
            if "change" in part:
                self._whole(part, lsn, xid)
            else:
                self._part(part, lsn)

    def _ended(self, begun: Object, lsn: int) -> None:
        self._commit(None, None, lsn_of(begun, "nextlsn") or lsn, time_us_of(begun))

    def _whole(self, row: Object, lsn: int, xid: int) -> None:
        changes = row["change"]
        if not isinstance(changes, list) or not all(isinstance(part, dict) for part in changes):
            raise refused("change as a list of objects")
        if changes and all(part.get("transactional") is False for part in changes):
            # These messages belong to no transaction, though the row carries the xid of one.
            for part in changes:
                self._part(part, lsn)
            return
        if not xid and "nextlsn" not in row:
            raise refused("nextlsn beside a walsender's rows: give include-lsn")
        self._began(row, 0, xid)
        size, rest = divmod(self._row_size_bytes, max(len(changes), 1))
        for index, part in enumerate(changes):
            self._row_size_bytes = size + (index < rest)
            self._part(part, 0)
        self._ended(row, lsn)

    def _part(self, part: Object, lsn: int) -> None:
        kind = part.get("kind")
        if kind == "message":
            self._message(message_of(part, lsn))
            return
        if not isinstance(kind, str) or kind not in _OPERATIONS:
            raise refused("a kind of insert, update, delete or message")
        new = None if kind == "delete" else self._reader.lists(part, "column")
        old = None
        if "oldkeys" in part:
            if not isinstance(part["oldkeys"], dict):
                raise refused("oldkeys as an object")
            old = self._reader.lists(part["oldkeys"], "key")
        key = part.get("pk", {"pknames": []})
        if not isinstance(key, dict):
            raise refused("pk as an object")
        names = names_of(key.get("pknames"))
        self._row(lsn, _OPERATIONS[kind], table_of(part), names, new, old)

    # Both formats: put a decoded row into the shape of its table.

    def _began(self, row: Object, first_lsn: int, xid: int) -> None:
        sent_xid = number_of(row, "xid")
        transaction = self._begin(xid if sent_xid is None else sent_xid, first_lsn)
        # Format 1 sends no ``lsn`` here.
        transaction.final_lsn = lsn_of(row, "lsn")
        transaction.commit_time_us = time_us_of(row)
        origin = number_of(row, "origin")
        transaction.origin = f"#{origin}" if origin else None

    def _row(
        self,
        lsn: int,
        op: Literal["I", "U", "D"],
        table: TableName,
        key: tuple[str, ...],
        new: SentRow | None,
        old: SentRow | None,
    ) -> None:
        """Add an insert, update or delete; ``key`` is the primary key."""
        if op == "I" and new is not None:
            relation = self._relations.whole(table, new.layout, key)
            self._add(lsn, relation, op, None, None, new.values)
            return
        new_values = None
        old_fit = None if old is None else self._relations.part(table, old.layout, key)
        if new is not None:
            fit = self._relations.part(table, new.layout, key, updated=True)
            new_values = fit.place(new.values, UNCHANGED)
            # The new row knows more columns, so place the old one among them.
            old_fit = None if old is None else self._relations.part(table, old.layout, key)
            if old_fit is not None and old_fit.relation is not fit.relation:
                raise ProtocolError(KIND, None, "an old row of the new row's columns")
        if old is None or old_fit is None:
            self._add(lsn, self._relations.named(table), op, None, None, new_values)
            return
        kind: OldKind | None = self._relations.old_kind(table, len(old.values))
        old_values: list[Value] | None = old_fit.place(old.values, NOT_SENT)
        if kind == "K" and new_values is not None and _repeats(old, old_fit, new_values):
            kind = old_values = None
        self._add(lsn, old_fit.relation, op, kind, old_values, new_values)

    def _truncate(self, lsn: int, table: TableName) -> None:
        self._add(lsn, self._relations.named(table), "T", None, None, Truncation(None, None))
