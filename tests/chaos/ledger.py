"""The source's own ledger: what committed, as each transaction wrote it down inside itself.

The ledger is not published, so nothing of it passes through what is tested. A row is there if and
only if its transaction committed, whatever a session was told or a crash took back; beside it the
source itself knows when (``track_commit_timestamp``).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from tests.chaos.stored import StoredTransaction

_LEDGER = """
SELECT xid, gid, origin, changes, messages, session, number,
       pg_xact_commit_timestamp(xid::text::xid) FROM ledger
"""


def compare_ledger(
    source: psycopg.Connection[Any], history: Sequence[StoredTransaction]
) -> Iterator[str]:
    """Yield a sentence for each difference between the stored transactions and the ledger."""
    source.execute("SET timezone = UTC")
    sends_messages = source.info.server_version >= 140000
    sends_prepared = source.info.server_version >= 150000
    stored = [t for t in history if t.xid is not None]
    times_stored = Counter(t.xid for t in stored)
    by_xid = {t.xid: t for t in stored}
    in_ledger = set()
    for xid, gid, origin, changes, emitted, session, number, committed in source.execute(_LEDGER):
        messages = emitted if sends_messages else 0
        name = f"xid {xid} (session {session}, transaction {number})"
        in_ledger.add(xid)
        if xid not in by_xid:
            if changes or messages:
                yield f"{name}: {changes} changes committed, and it is not stored"
            continue
        mine = by_xid[xid]
        told = len(mine.records)
        if times_stored[xid] > 1:
            yield f"{name} is stored {times_stored[xid]} times"
        if told != changes + messages:
            yield f"{name}: {told} changes stored, {changes} + {messages} were made"
        if gid and not sends_prepared and mine.origin is None:
            # Such a server tells the origin of the session that ended it, which may have none.
            origin = None
        if mine.streamed and mine.origin is None:
            # The server tells the origin of a streamed transaction only if its first change is an
            # ordinary one (reorderbuffer.c, ReorderBufferProcessTXN).
            origin = None
        gid = gid if sends_prepared else None
        if told and (mine.gid, mine.origin, mine.commit_time) != (gid, origin, committed):
            yield (
                f"{name}: gid, origin and commit time {mine.gid, mine.origin, mine.commit_time}, "
                f"not {gid, origin, committed}"
            )
    for xid in by_xid.keys() - in_ledger:
        yield f"xid {xid} is stored and never committed"
