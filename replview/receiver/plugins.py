"""This module has what differs by output plugin: the options, and the decoder of its frames.

Besides pgoutput, a slot of ``test_decoding`` or ``wal2json`` can be adopted. These plugins write
text in the database's own encoding, and name tables without their oids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from decoder.assembler import Assembler
from decoder.binary import UserType
from decoder.events import Event, OpenTransaction, RelationSeen
from decoder.plugins.collecting import PluginCollector
from decoder.plugins.test_decoding import TEST_DECODING_OPTIONS, TestDecodingAssembler
from decoder.plugins.wal2json import FormatVersion, Wal2JsonAssembler, wal2json_options
from decoder.replication import XLOGDATA_HEADER_BYTES
from replview.catalog.naming import quoted
from replview.receiver.source_catalog import NamedTables


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The pgoutput options of one stream."""

    proto_version: int
    streaming: Literal["off", "on", "parallel"]
    binary: bool
    messages: bool
    two_phase: bool
    origin: str | None
    publications: tuple[str, ...]

    def as_arguments(self) -> dict[str, str]:
        """Return the options of START_REPLICATION, without the ones that are off or unsupported."""
        arguments = {
            "proto_version": str(self.proto_version),
            "publication_names": ",".join(map(quoted, self.publications)),
        }
        options = {
            "streaming": None if self.streaming == "off" else self.streaming,
            "binary": "true" if self.binary else None,
            "messages": "true" if self.messages else None,
            "two_phase": "on" if self.two_phase else None,
            "origin": self.origin,
        }
        return arguments | {name: value for name, value in options.items() if value is not None}


def choose(
    server_version: int,
    publications: Sequence[str],
    wanted: Mapping[str, object],
    *,
    slot_two_phase: bool,
    owned: bool,
) -> StreamOptions:
    """Return the best options that the server supports, with ``wanted`` (``slot.options``) applied.

    ``two_phase`` is set only for a slot that was created with it: it would switch any other slot to
    two-phase decoding for good.
    """
    major = server_version // 10000
    best = 4 if major >= 16 else 3 if major == 15 else 2 if major == 14 else 1
    proto_version = min(int(str(wanted.get("proto_version", best))), best)
    streaming = str(wanted.get("streaming", "parallel"))
    if streaming == "parallel" and proto_version < 4:
        streaming = "on"
    if proto_version < 2:
        streaming = "off"
    return StreamOptions(
        proto_version=proto_version,
        streaming=streaming,  # type: ignore[arg-type]
        binary=major >= 14 and _is_on(wanted.get("binary", False)),
        messages=major >= 14 and _is_on(wanted.get("messages", True)),
        two_phase=slot_two_phase and owned and proto_version >= 3,
        origin=str(wanted.get("origin", "any")) if major >= 16 else None,
        publications=tuple(publications),
    )


def _is_on(value: object) -> bool:
    return value is True or str(value).lower() in ("on", "true", "1", "yes")


class TextDecoder:
    """A decoder for a plugin that writes text; it has the methods of pgoutput's ``Assembler``."""

    #: True when the last frame was inside a stream block; these plugins do not stream.
    in_stream = False
    #: Set by the session, and without effect here: only pgoutput's frames are filtered.
    keeps_empty = False

    def __init__(self, assembler: PluginCollector, encoding: str, tables: NamedTables) -> None:
        self._assembler = assembler
        self._encoding = encoding
        self._tables = tables

    @property
    def in_transaction(self) -> bool:
        """Return whether the last frame left a transaction open."""
        return self._assembler.in_transaction

    @property
    def passed_lsn(self) -> int:
        """Return where the last transaction ended; these plugins also send empty transactions."""
        return self._assembler.last_end_lsn or 0

    @property
    def open_streams(self) -> Sequence[OpenTransaction]:
        """Return the open streamed transactions: always none."""
        return self._assembler.open_streams

    def feed(self, frames: Sequence[bytes]) -> list[Event]:
        r"""Return the events that the frames contain. Raises ``ProtocolError``.

        Bytes that are invalid in the encoding become ``\xff``.
        """
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


#: A decoder turns frames into events; each session and each peek has its own.
Decoder = Assembler | TextDecoder


def plugin_arguments(
    plugin: str, options: StreamOptions, wanted: Mapping[str, object]
) -> dict[str, str]:
    """Return the plugin's options as the server takes them, by name.

    ``wanted`` is ``slot.options``.
    """
    if plugin == "test_decoding":
        return dict(TEST_DECODING_OPTIONS)
    if plugin == "wal2json":
        return dict(wal2json_options(format_version(wanted)))
    return options.as_arguments()


def format_version(wanted: Mapping[str, object]) -> FormatVersion:
    """Return the format version of wal2json: 2 unless the options say 1."""
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
    """Return a new decoder for a session or a peek."""
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
