"""pgoutput's options for START_REPLICATION: defaults by server version, the user's on top."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a session asks of pgoutput."""

    proto_version: int
    streaming: Literal["off", "on", "parallel"]
    binary: bool
    messages: bool
    two_phase: bool
    origin: str | None
    publications: tuple[str, ...]

    def as_arguments(self) -> dict[str, str]:
        """The options as START_REPLICATION takes them; those the server lacks are left out."""
        arguments = {
            "proto_version": str(self.proto_version),
            "publication_names": ",".join(quote_identifier(name) for name in self.publications),
        }
        if self.streaming != "off":
            arguments["streaming"] = self.streaming
        if self.binary:
            arguments["binary"] = "true"
        if self.messages:
            arguments["messages"] = "true"
        if self.two_phase:
            arguments["two_phase"] = "on"
        if self.origin is not None:
            arguments["origin"] = self.origin
        return arguments


def choose(
    server_version: int,
    publications: Sequence[str],
    wanted: Mapping[str, object],
    *,
    slot_two_phase: bool,
    owned: bool,
) -> StreamOptions:
    """The best the server can do, unless ``wanted`` (``slot.options``) says otherwise.

    ``two_phase`` is given only for a slot we created as two-phase: given to another it would
    switch that slot for good.
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


def quote_identifier(name: str) -> str:
    """``name`` as a quoted identifier of the replication grammar."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """``text`` as a literal of the replication grammar, which knows no escapes but ``''``."""
    return "'" + text.replace("'", "''") + "'"
