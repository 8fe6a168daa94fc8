"""The captured streams: real servers' bytes, read from ``captured/``.

``pg15/01_identity.v1t`` is a live stream of scenario ``01_identity`` under
variant ``v1t``; ``….peek`` is the same WAL through
``pg_logical_slot_peek_binary_changes()``.
"""

from __future__ import annotations

import gzip
import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from decoder.assembler import Assembler
from decoder.binary import UserType
from decoder.events import Event, TypeSeen
from decoder.lifecycle import Streaming
from decoder.scalars import LSN
from tests.support.wire import xlogdata_frame

FOLDER = Path(__file__).parent / "captured"
_HEADER = struct.Struct(">cQQq")


@dataclass(frozen=True)
class Capture:
    """One session's frames, and the options it was started with."""

    name: str
    proto_version: int
    streaming: Streaming
    binary: bool
    publications: str
    encoding: str
    frames: tuple[bytes, ...]

    def assembler(
        self, *, fast: bool = True, user_types: dict[int, UserType] | None = None
    ) -> Assembler:
        return Assembler(
            proto_version=self.proto_version,
            streaming=self.streaming,
            encoding=self.encoding,
            binary=self.binary,
            user_types=user_types,
            fast=fast,
        )

    def events(self, *, fast: bool = True) -> list[Event]:
        return self.assembler(fast=fast).feed(self.frames)


@cache
def lines(name: str) -> tuple[dict[str, Any], ...]:
    """The lines of ``captured/<name>.jsonl.gz``."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return tuple(json.loads(line) for line in file)


def names() -> list[str]:
    """Every capture of pgoutput messages."""
    found = sorted(FOLDER.glob("pg*/*.jsonl.gz"))
    all_names = [f"{path.parent.name}/{path.name.removesuffix('.jsonl.gz')}" for path in found]
    # A publication that does not exist: 15 answers with an error and no message.
    return [name for name in all_names if "00_frames" not in name and ".nopub" not in name]


@cache
def capture(name: str) -> Capture:
    # The peek of a stream was made with the stream's options.
    options = lines(name.removesuffix(".peek"))[0]["options"]
    return Capture(
        name=name,
        proto_version=int(options["proto_version"]),
        streaming=options.get("streaming", "off"),
        binary=options.get("binary") == "true",
        publications=options["publication_names"],
        encoding="latin-1" if "13b_" in name else "utf-8",
        frames=tuple(_frame(line) for line in lines(name) if "hex" in line),
    )


def _frame(line: dict[str, Any]) -> bytes:
    payload = bytes.fromhex(line["hex"])
    if "lsn" in line:
        return xlogdata_frame(LSN.parse(line["lsn"]), payload)
    start, end = LSN.parse(line["wal_start"]), LSN.parse(line["wal_end"])
    return _HEADER.pack(b"w", start, end, line["clock"]) + payload


#: The kinds of the captured user-defined types, by the name in their Type messages. A domain comes
#: with its base type's name.
_USER_TYPES = {
    "mood": UserType("enum"),
    "typé": UserType("enum"),
    "_mood": UserType("array"),
    "_posint": UserType("array"),
    "_pair": UserType("array"),
    "pair": UserType("composite"),
    "nested": UserType("composite"),
    "int4": UserType("domain", over_oid=23),
    "frange": UserType("range", over_oid=701),
}


def user_types(name: str) -> dict[int, UserType]:
    """Return the types of a capture, as a receiver would read them in the catalog, by oid."""
    found: dict[int, UserType] = {}
    for event in capture(name).events():
        if isinstance(event, TypeSeen) and event.type.name in _USER_TYPES:
            found[event.type.oid] = _USER_TYPES[event.type.name]
    return found
