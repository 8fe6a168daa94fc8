"""A slot's changes as ``replview changes`` writes them."""

from collections.abc import Iterator
from dataclasses import replace

from decoder.scalars import LSN
from replview.store.read.changes import stream
from replview.store.read.changes.batches import Batching
from replview.store.read.changes.records import Record
from replview.store.read.changes.scan import AFTER_LAST_SEQ, ChangeScan
from replview.store.read.changes.scan_places import ScanPosition
from replview.store.read.changes.stream import RecordWriter, StreamCursor
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.rows import QueriedSlot
from replview.store.read.session import ReadSession


def iterate_changes(
    session: ReadSession,
    slot: QueriedSlot,
    *,
    relation: tuple[str, str] | None = None,
    from_lsn: LSN | None = None,
    to_lsn: LSN | None = None,
    after: StreamCursor | None = None,
    wanted: WantedChanges | None = None,
) -> Iterator[tuple[StreamCursor, Record]]:
    """Every counted change after ``after``, with the place to go on from once it is consumed.

    ``relation`` is (schema, table), by its present name or one it had. The LSNs bound the commit's
    position, both included; as positions compare only within one incarnation of a slot, a bound
    means its present one alone. ``wanted`` is any other filter.
    """
    asked = (wanted or WantedChanges(slot=slot)).filter
    asked = replace(
        asked,
        tables=(".".join(relation),) if relation else asked.tables,
        from_lsn=asked.from_lsn if from_lsn is None else from_lsn,
        to_lsn=asked.to_lsn if to_lsn is None else to_lsn,
    )
    wanted = replace(wanted or WantedChanges(slot=slot), filter=asked)
    writer = RecordWriter(session, slot)
    place = (
        None if after is None else ScanPosition(after.incarnation, after.commit_seq, AFTER_LAST_SEQ)
    )
    batching = Batching(stream.PAGE, stream.PAGE)
    for batch in ChangeScan(session, wanted, place=place, batching=batching).batches():
        for found in batch.found:
            number = writer.incarnation_number(found[0].incarnation_id)
            yield StreamCursor(number, found[0].commit_seq or 0), writer.record(found)
