"""The verdict: the store's history against the witness, the source's ledger and its tables.

Each finding is of one kind, and any is a failure: lost, doubled, invented,
misordered, mismatched (a change differs), rows (the replayed tables differ from the source's),
ledger, order (``commit_seq`` and LSNs), state (something is open that is not). A run adds its own:
stuck, disturbed, slow (a bar of recovery), unsaid (the slot's log is silent), broken (the run).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from replview.store.models import Slot, SlotIncarnation, Transaction
from tests.chaos.ledger import compare_ledger
from tests.chaos.replay import Replayed, source_rows
from tests.chaos.stored import StoredTransaction, read_history, records_in_order
from tests.chaos.tables import TABLES
from tests.chaos.witness import WitnessTransaction, read_witness

_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which the record is not true."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(slots=True)
class Verdict:
    """The numbers of compared transactions, changes and incarnations, and all findings."""

    findings: list[Finding]
    transactions: int = 0
    changes: int = 0
    incarnations: int = 0

    @property
    def kinds(self) -> Counter[str]:
        """Count the findings by kind."""
        return Counter(finding.kind for finding in self.findings)


def check(
    source: psycopg.Connection[Any], slot: Slot, *, witness_slot: str, publication: str
) -> Verdict:
    """Compare everything. The workload has ended and all of it is stored."""
    history = read_history(slot)
    witness = read_witness(source, witness_slot, publication)
    findings = [
        *compare_order(history),
        *compare_with_witness(history, witness),
        *(Finding("ledger", text) for text in compare_ledger(source, history)),
        *compare_rows(source, history),
        *compare_states(source, slot, history),
    ]
    return Verdict(
        findings,
        transactions=len(history),
        changes=sum(len(transaction.records) for transaction in history),
        incarnations=len({transaction.incarnation for transaction in history}),
    )


def compare_order(history: Sequence[StoredTransaction]) -> Iterator[Finding]:
    """``commit_seq`` counts from 1 without holes, and LSNs only grow, within each incarnation."""
    for incarnation in sorted({transaction.incarnation for transaction in history}):
        last_end = 0
        inside = [transaction for transaction in history if transaction.incarnation == incarnation]
        for place, transaction in enumerate(inside, start=1):
            if transaction.commit_seq != place:
                yield Finding("order", f"incarnation {incarnation}: commit_seq "
                                       f"{transaction.commit_seq} at place {place}")  # fmt: skip
                break
            if transaction.end_lsn is not None:
                if transaction.end_lsn <= last_end:
                    yield Finding("misordered", f"{_name(transaction)} ends at or before the "
                                                "one before it")  # fmt: skip
                last_end = transaction.end_lsn


def compare_with_witness(
    history: Sequence[StoredTransaction], witness: Sequence[WitnessTransaction]
) -> Iterator[Finding]:
    """Yield the differences from the witness: in transactions, their order and their changes.

    A transaction without published changes is told to replview if it was prepared or streamed, and
    not to the witness: those are left out on both sides.
    """
    ours = [transaction for transaction in history if transaction.records]
    theirs = [transaction for transaction in witness if transaction.changes]
    our_ids, their_ids = list(map(_identity, ours)), list(map(_identity, theirs))
    told, known = Counter(our_ids), set(their_ids)
    yield from (Finding("lost", str(one)) for one in their_ids if one not in told)
    yield from (Finding("invented", str(one)) for one in told if one not in known)
    yield from (
        Finding("doubled", f"{one}, {times} times") for one, times in told.items() if times > 1
    )
    common = [one for one in dict.fromkeys(our_ids) if one in known]
    expected = [one for one in their_ids if one in told]
    for place, (mine, right) in enumerate(zip(common, expected, strict=False)):
        if mine != right:
            yield Finding("misordered", f"at place {place} stands {mine}, not {right}")
            break
    right_by_id = dict(zip(their_ids, theirs, strict=True))
    for one, mine in zip(our_ids, ours, strict=True):
        if one in right_by_id:
            yield from _compare_one(mine, right_by_id[one])


def _compare_one(mine: StoredTransaction, right: WitnessTransaction) -> Iterator[Finding]:
    if mine.xid is not None and mine.end_lsn != right.end_lsn:
        yield Finding("mismatched", f"{_name(mine)} ends at {mine.end_lsn}, not {right.end_lsn}")
    changes = mine.changes
    if len(changes) != len(right.changes):
        yield Finding("mismatched", f"{_name(mine)}: {len(changes)} changes, "
                                    f"not {len(right.changes)}")  # fmt: skip
    if mine.counted != len(changes):
        yield Finding("mismatched", f"{_name(mine)}: counts {mine.counted} changes and has "
                                    f"{len(changes)}")  # fmt: skip
    for place, (change, wanted) in enumerate(zip(changes, right.changes, strict=False), start=1):
        if change != wanted:
            texts = f"{str(change)[:_SHOWN]}, not {str(wanted)[:_SHOWN]}"
            yield Finding("mismatched", f"{_name(mine)}, change {place}: {texts}")
            return


def compare_rows(
    source: psycopg.Connection[Any], history: Sequence[StoredTransaction]
) -> Iterator[Finding]:
    """The record replayed gives the source's tables, row for row."""
    replayed = Replayed()
    replayed.apply(records_in_order(list(history)))
    yield from (Finding("rows", text) for text in replayed.refused[:20])
    for table in TABLES:
        ours, right = replayed.rows(table), source_rows(source, table)
        missing, excess = right - ours, ours - right
        if missing or excess:
            examples = f"{str(next(iter(missing), ''))[:_SHOWN]} / "
            examples += str(next(iter(excess), ""))[:_SHOWN]
            yield Finding("rows", f"{table}: {missing.total()} missing, {excess.total()} too many "
                                  f"of {right.total()}: {examples}")  # fmt: skip


def compare_states(
    source: psycopg.Connection[Any], slot: Slot, history: Sequence[StoredTransaction]
) -> Iterator[Finding]:
    """Nothing is open but what the source still holds prepared; the counters fit."""
    slot.refresh_from_db()
    mine = Transaction.objects.filter(incarnation__slot=slot)
    found = source.execute(
        "SELECT gid, transaction::text::bigint FROM pg_prepared_xacts "
        "WHERE database = current_database()"
    ).fetchall()
    waiting = set(mine.filter(state="prepared").values_list("gid", "xid"))
    still_open = mine.filter(state__in=["receiving", "streaming"])
    if source.info.server_version < 150000:
        # pgoutput sends them when they are committed; what it streamed of them before is there.
        still_open = still_open.exclude(xid__in=[xid for _, xid in found])
        found = []
    for xid, state in still_open.values_list("xid", "state"):
        yield Finding("state", f"xid {xid} is still {state}")
    if waiting != set(found):
        yield Finding("state", f"prepared are {sorted(waiting)}, on the source {sorted(found)}")
    for gap in slot.events.filter(kind__in=["gap", "problem"]):
        yield Finding("state", f"the slot's log says: {gap.message}")
    for incarnation in SlotIncarnation.objects.filter(slot=slot):
        last = max(
            (t.commit_seq for t in history if t.incarnation == incarnation.number), default=0
        )
        if incarnation.commit_seq != last:
            yield Finding(
                "order",
                f"incarnation {incarnation.number} ends at {incarnation.commit_seq}, not at {last}",
            )


def _identity(transaction: StoredTransaction | WitnessTransaction) -> tuple[object, ...]:
    if transaction.xid is None:
        # Each message of the workload is sent once.
        return ("message", transaction.changes[0].new)
    return ("xid", transaction.xid, transaction.commit_lsn)


def _name(transaction: StoredTransaction) -> str:
    place = f"incarnation {transaction.incarnation}, commit_seq {transaction.commit_seq}"
    return f"xid {transaction.xid} ({place})"
