"""Reads the output of text plugins for the captured scenarios from ``captured/``.

They were read on PostgreSQL 15 through ``pg_logical_slot_peek_changes()``, a row
a line: lsn, xid and text between tabs; a text may hold line breaks. test_decoding's
slot had two phases, its options were ``include-xids``, no ``include-timestamp``,
and ``stream-changes``, under which streamed transactions come without values.

``30_plugins`` is the workload of ``plugin_workload``, as pgoutput, test_decoding
and wal2json told it under the options that the receiver gives.
"""

from __future__ import annotations

import gzip
import re
from functools import cache

from decoder.plugins.collecting import PluginRow
from decoder.scalars import LSN
from tests.decoder.captures import FOLDER

_SUFFIX = ".test_decoding.txt.gz"
_ROW = re.compile(r"\n(?=[0-9A-F]+/[0-9A-F]+\t[0-9]+\t)")
_STREAMED = ("opening a", "closing a", "streaming", "aborting", "committing", "preparing")


def scenarios() -> list[str]:
    """Every scenario with rows of test_decoding."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in FOLDER.glob(f"pg15/*{_SUFFIX}"))


@cache
def rows(scenario: str, plugin: str = "test_decoding") -> tuple[PluginRow, ...]:
    """A scenario's rows, those of streamed transactions too."""
    path = FOLDER / "pg15" / f"{scenario}.{plugin}.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        lines = _ROW.split(file.read().removesuffix("\n"))
    split = (line.split("\t", 2) for line in lines)
    return tuple((int(LSN.parse(lsn)), int(xid), text) for lsn, xid, text in split)


def whole_rows(scenario: str) -> tuple[PluginRow, ...]:
    """Return the rows of a scenario without those of streamed transactions."""
    return tuple(row for row in rows(scenario) if not row[2].startswith(_STREAMED))


def streamed_xids(scenario: str) -> frozenset[int]:
    """The transactions whose changes came without values."""
    return frozenset(xid for _, xid, text in rows(scenario) if text.startswith(_STREAMED))
