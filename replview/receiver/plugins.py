"""What each output plugin needs of a receiver: its options, and how its frames become events.

Besides pgoutput, ``test_decoding`` and ``wal2json`` can be read, where such a slot was adopted.
They write text, in the database's own encoding, and name tables without their oids.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from decoder.assembler import Assembler
from decoder.binary import UserType
from decoder.events import Event, OpenTransaction, RelationSeen
from decoder.plugins.run import PluginCollector
from decoder.plugins.test_decoding import TEST_DECODING_OPTIONS, TestDecodingAssembler
from decoder.plugins.wal2json import FormatVersion, Wal2JsonAssembler, wal2json_options
from decoder.replication import XLOGDATA_HEADER_BYTES
from replview.receiver.options import StreamOptions
from replview.receiver.source_catalog import NamedTables


class Decoder(Protocol):
    """Frames in, events out; one for each session or peek."""

    @property
    def in_transaction(self) -> bool:
        """Between a begin and its end, or inside a stream block."""

    @property
    def passed_lsn(self) -> int:
        """Where the last transaction ended, even one that told nothing; 0 where that is not known
        from the messages.
        """

    @property
    def in_stream(self) -> bool:
        """Inside a stream block."""

    @property
    def open_streams(self) -> Sequence[OpenTransaction]:
        """Streamed transactions begun and not ended."""

    def feed(self, frames: Sequence[bytes]) -> list[Event]:
        """Take XLogData frames; give the events they make. Raises ``ProtocolError``."""


class TextDecoder:
    """The frames of a plugin that writes text."""

    in_stream = False

    def __init__(self, assembler: PluginCollector, encoding: str, tables: NamedTables) -> None:
        self._assembler = assembler
        self._encoding = encoding
        self._tables = tables

    @property
    def in_transaction(self) -> bool:
        """Between a begin and its end."""
        return self._assembler.in_transaction

    @property
    def passed_lsn(self) -> int:
        """Where the last transaction ended: these plugins tell of empty ones, too."""
        return self._assembler.last_end_lsn or 0

    @property
    def open_streams(self) -> Sequence[OpenTransaction]:
        """Always empty."""
        return self._assembler.open_streams

    def feed(self, frames: Sequence[bytes]) -> list[Event]:
        """As ``Decoder``; bytes that are no text in the encoding come as ``\\xff``."""
        encoding = self._encoding
        rows = [
            (
                int.from_bytes(frame[1:9], "big"),
                0,
                frame[XLOGDATA_HEADER_BYTES:].decode(encoding, "backslashreplace"),
            )
            for frame in frames
        ]
        events = self._assembler.feed(rows)
        for event in events:
            if isinstance(event, RelationSeen) and event.changed:
                self._tables.learn(event.relation)
        return events


def plugin_arguments(
    plugin: str, options: StreamOptions, wanted: Mapping[str, object]
) -> dict[str, str]:
    """The options as the server takes them. ``wanted``: ``slot.options``."""
    if plugin == "test_decoding":
        return dict(TEST_DECODING_OPTIONS)
    if plugin == "wal2json":
        return dict(wal2json_options(format_version(wanted)))
    return options.as_arguments()


def format_version(wanted: Mapping[str, object]) -> FormatVersion:
    """wal2json's, 2 unless asked otherwise."""
    return 1 if str(wanted.get("format_version", 2)) == "1" else 2


def new_decoder(
    plugin: str,
    options: StreamOptions,
    encoding: str,
    *,
    wanted: Mapping[str, object],
    tables: NamedTables,
    user_types: Mapping[int, UserType],
) -> Decoder:
    """The decoder for a session, or a peek, that begins to be read."""
    columns_of = tables.columns_of
    if plugin == "test_decoding":
        return TextDecoder(TestDecodingAssembler(columns_of=columns_of), encoding, tables)
    if plugin == "wal2json":
        version = format_version(wanted)
        wal2json = Wal2JsonAssembler(format_version=version, columns_of=columns_of)
        return TextDecoder(wal2json, encoding, tables)
    return Assembler(
        proto_version=options.proto_version,
        streaming=options.streaming,
        encoding=encoding,
        binary=options.binary,
        user_types=user_types,
    )
