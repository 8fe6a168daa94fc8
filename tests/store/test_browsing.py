"""Finding transactions: pages give what a filter of all rows gives, in both directions."""

import datetime as dt
import random
import time
from types import SimpleNamespace

import pytest

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import Relation, SlotIncarnation, Source, Transaction
from replview.store.read.days import transaction_id
from replview.store.read.history import transactions_by_id
from replview.store.read.history_places import IncarnationPlaces
from replview.store.read.rows import TransactionRow
from replview.store.read.transactions import streams as browsing_streams
from replview.store.read.transactions.listing import (
    ListCursor,
    cursor_at_beginning,
    find_transactions,
)
from replview.store.read.transactions.streams import PlacedStream
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.sums import activity

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
WHEN = dt.datetime(2026, 11, 20, 7, 0, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)
LOST = ("aborted", "rolled back", "unknown")
OPEN = ("receiving", "streaming", "prepared")


class RandomRecord:
    """Two slots, one of two incarnations, with transactions of every kind."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = random.Random(seed)
        self.shaken = bool(seed % 2)
        monkeypatch.setattr(activity, "BLOCK", 10)
        for module in (
            "read.transactions.streams",
            "read.transactions.reading",
            "read.history_places",
        ):
            monkeypatch.setattr(f"replview.store.{module}.BLOCK", 10)
        source = Source.objects.create(name="shop", conninfo="")
        self.relations = []
        self.rows: list[Transaction] = []
        self.clock = WHEN
        for name, incarnations in (("a", 2), ("b", 1)):
            slot = source.slots.create(name=name)
            tables = [
                Relation.objects.create(
                    slot=slot, system_identifier="1", oid=oid, schema="public", table=f"t{oid}"
                )
                for oid in range(3)
            ]
            for number in range(1, incarnations + 1):
                incarnation = SlotIncarnation.objects.create(
                    slot=slot, number=number, system_identifier="1", timeline=1, reason="created"
                )
                self._fill(incarnation, tables)
        Transaction.objects.bulk_create(self.rows)

    def _fill(self, incarnation: SlotIncarnation, tables: list[Relation]) -> None:
        for _ in range(self.dice.randrange(45, 75)):
            self.clock += SECOND * self.dice.random()
            state = self.dice.choices(
                ["committed", "message", "skipped", "snapshot", *LOST, *OPEN],
                [30, 3, 1, 1, 2, 2, 1, 1, 1, 1],
            )[0]
            self.rows.append(self._row(incarnation, tables, state))
        incarnation.save()

    def _row(self, incarnation: SlotIncarnation, tables: list[Relation], state: str) -> Transaction:
        dice = self.dice
        placed = state in ("committed", "message", "skipped", "snapshot")
        if placed:
            incarnation.commit_seq += 1
        counts = [dice.choice([0, 0, 1, 5]) for _ in range(4)]
        touched = dice.sample(tables, dice.randrange(0, 3))
        two_phase = state == "prepared" or dice.random() < 0.1
        # Commits of one moment reach the WAL in any order.
        shaken = self.clock - SECOND * dice.random() * (self.shaken and dice.random() < 0.2)
        lsn = 1000 * (len(self.rows) + 1)
        return Transaction(
            id=transaction_id(len(self.rows) + 1, at=0),
            incarnation=incarnation,
            state=state,
            commit_seq=incarnation.commit_seq if placed else None,
            xid=700 + dice.randrange(40),
            gid=f"g{dice.randrange(5)}" if two_phase else None,
            commit_lsn=None if state in OPEN else LSN(lsn),
            first_lsn=LSN(lsn - 500),
            commit_time=shaken if placed and state != "message" else None,
            prepared_at=shaken - SECOND * dice.randrange(100) if two_phase else None,
            ended_at=shaken if state in LOST and dice.random() < 0.5 else None,
            actor=dice.choice([None, "alice", "bob"]),
            actor_grade="claimed",
            origin=dice.choice([None, None, "berlin"]),
            inserts=sum(c for c in counts[:1] for _ in touched),
            updates=sum(c for c in counts[1:2] for _ in touched),
            deletes=sum(c for c in counts[2:3] for _ in touched),
            truncates=sum(c for c in counts[3:] for _ in touched),
            messages=dice.choice([0, 0, 0, 1]),
            size_bytes=dice.randrange(5000),
            relations={
                str(t.pk): [counts[0], 0, 0, 0] if state == "snapshot" else counts for t in touched
            },
            received_at=self.clock,
            stored_at=self.clock,
        )

    def random_filter(self) -> TransactionFilter:
        """A few words, each of which some row fulfils."""
        dice = self.dice
        row = dice.choice(self.rows)
        words = {
            "slot": dice.choice(["shop/a", "shop/b", ""]),
            "tables": ",".join(dice.sample(["public.t0", "public.t1", "public.t2"], 2)),
            "ops": "".join(dice.sample("IUDTMS", 2)),
            "states": ",".join(dice.sample(["committed", "aborted", "snapshot", "open"], 2)),
            "actor": dice.choice(["alice", "?"]),
            "origin": dice.choice(["berlin", "-"]),
            "id": str(row.xid) if row.gid is None else row.gid,
            "q": dice.choice(["ali", "t1", "g1", "71"]),
            "min_changes": "4",
            "min_bytes": "3000",
            "prepared_min": "30",
            "since": row.received_at.isoformat(),
            "until": row.received_at.isoformat(),
            "from_lsn": str(row.first_lsn),
            "to_lsn": str(row.first_lsn),
        }
        chosen = dice.sample(sorted(words), dice.randrange(0, 4))
        return TransactionFilter.from_words({name: words[name] for name in chosen})


def time_of(row: TransactionRow) -> dt.datetime:
    if row.state in OPEN:
        return (row.prepared_at if row.state == "prepared" else None) or row.received_at
    if row.state in LOST:
        return row.ended_at or row.stored_at
    return row.commit_time or row.stored_at


def passes(row: TransactionRow, wanted: TransactionFilter, slots: dict, names: dict) -> bool:
    """The filter's meaning, said again without any SQL."""
    counts = {names[int(key)]: count for key, count in row.relations.items()}
    changes = row.inserts + row.updates + row.deletes + row.truncates + row.messages
    lsn = row.commit_lsn or row.end_lsn or row.first_lsn
    asked = {name: count for name, count in counts.items() if name in wanted.tables}
    if wanted.tables and not asked:
        return False
    if wanted.ops != "IUDTMS":
        snapshot = row.state == "snapshot"
        done = "S" if snapshot else ""
        if wanted.tables:
            sums = [] if snapshot else [sum(kind) for kind in zip(*asked.values(), strict=True)]
        else:
            sums = [row.inserts, row.updates, row.deletes, row.truncates, row.messages]
            sums = [] if snapshot else sums
        done += "".join(letter for letter, count in zip("IUDTM", sums, strict=False) if count)
        if not set(done) & set(wanted.ops):
            return False
    text = wanted.text.casefold()
    texts = [row.gid, row.actor, row.origin, str(row.xid), row.commit_lsn, *counts]
    prepared = row.gid is not None and row.prepared_at is not None
    end = row.commit_time or row.ended_at or dt.datetime.now(dt.UTC)
    return (
        wanted.slot in ("", slots[row.incarnation_id])
        and row.state in wanted.wanted_states
        and wanted.actor in ("", row.actor or "?")
        and wanted.origin in ("", row.origin or "-")
        and wanted.id in ("", row.gid, str(row.xid))
        and (not text or any(text in one.casefold() for one in texts if one))
        and changes >= wanted.min_changes
        and row.size_bytes >= wanted.min_bytes
        and (
            not wanted.prepared_min
            or (prepared and (end - row.prepared_at).total_seconds() >= wanted.prepared_min)
        )
        and (not wanted.since or time_of(row) >= wanted.since_at)
        and (not wanted.until or time_of(row) < wanted.until_at)
        and (wanted.from_lsn is None or LSN.parse(lsn) >= wanted.from_lsn)
        and (wanted.to_lsn is None or LSN.parse(lsn) <= wanted.to_lsn)
    )


def all_that_pass(wanted: TransactionFilter) -> list[TransactionRow]:
    """The naive answer: every row is looked at, then each incarnation's rows are put in order and
    merged head by head.
    """
    slots = {incarnation.pk: str(incarnation.slot) for incarnation in SlotIncarnation.objects.all()}
    names = {relation.pk: str(relation) for relation in Relation.objects.all()}
    rows = transactions_by_id(
        reading_session(), list(Transaction.objects.values_list("pk", flat=True))
    )
    rows = [row for row in rows if passes(row, wanted, slots, names)]
    lists: dict[tuple, list[TransactionRow]] = {}
    for row in rows:
        if row.commit_seq is not None:
            lists.setdefault((row.incarnation_id, 0), []).append(row)
        else:
            kind = (1 << 60, 0) if row.state in OPEN else (row.incarnation_id, 1)
            lists.setdefault(kind, []).append(row)
    for (_, kind), members in lists.items():
        if kind == 0 and members[0].commit_seq is not None:
            members.sort(key=lambda row: row.commit_seq)
        elif members[0].state in OPEN:
            members.sort(key=lambda row: (time_of(row), row.id))
        else:
            members.sort(key=lambda row: (row.stored_at, row.id))
    merged = []
    while left := {key: members for key, members in lists.items() if members}:
        key = max(left, key=lambda key: (time_of(left[key][-1]), key))
        merged.append(left[key].pop())
    return merged


def pages(wanted: TransactionFilter, *, backwards: bool, limit: int, **more) -> list:
    """All pages one after the other, in the order of the list."""
    found, cursor = [], cursor_at_beginning(reading_session()) if backwards else None
    for _ in range(500):
        page = find_transactions(
            reading_session(), wanted, cursor=cursor, backwards=backwards, limit=limit, **more
        )
        found = [*page.rows, *found] if backwards else [*found, *page.rows]
        cursor = page.newer if backwards else page.older
        if cursor is None:
            return found
        cursor = ListCursor.parse(str(cursor))
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("seed", range(6))
def test_paging_gives_what_a_filter_of_all_rows_gives(seed: int, monkeypatch) -> None:
    record = RandomRecord(seed, monkeypatch)
    # Some of it summed up, some not; looked through in small steps.
    monkeypatch.setattr(browsing_streams, "FIRST_CHUNK", record.dice.choice([7, 50]))
    monkeypatch.setattr(browsing_streams, "SMALLEST_CHUNK", 3)
    if seed % 3:
        activity.roll(time.monotonic() + (60 if seed % 3 == 1 else 0.05))
    for _ in range(8):
        wanted = record.random_filter()
        expected = [row.id for row in all_that_pass(wanted)]
        limit = record.dice.choice([4, 9, 60])
        budget = record.dice.choice([0.0, 5.0])
        down = pages(wanted, backwards=False, limit=limit, budget_seconds=budget)
        assert [row.id for row in down] == expected, wanted
        up = pages(wanted, backwards=True, limit=limit, budget_seconds=budget)
        if not record.shaken:
            assert [row.id for row in up] == expected, wanted
        assert sorted(row.id for row in up) == sorted(expected), wanted
        for incarnation in {row.incarnation_id for row in up}:
            seqs = [r.commit_seq for r in up if r.incarnation_id == incarnation and r.commit_seq]
            assert seqs == sorted(seqs, reverse=True)


def test_a_block_that_is_there_in_part_is_counted_on_in_part() -> None:
    incarnation = IncarnationPlaces(
        id=1, slot_id=1, slot="shop/replview", number=1, commit_seq=5999, rolled_seq=5999
    )
    stream = PlacedStream(backwards=False, rank=1, incarnation=incarnation, cut=5101)
    stream.searches = True
    stream.blocks.extend([5, 4, 3, 2])
    stream.expected = dict.fromkeys(stream.blocks, 60.0)

    # A tenth of the first block is left: 6 rows, and 60 in each of those that follow.
    assert stream.next_ranges(80) == [(3000, 5100)]
    stream.expected[4] = 0.0
    assert stream.next_ranges(80) == [(2000, 5100)]


@pytest.mark.parametrize(
    ("found", "next_range"),
    [
        # As many as expected: the numbers of the other blocks are believed.
        (60, (97_000, 98_999)),
        # Half as many: so are they, and twice as many blocks are looked through.
        (30, (95_000, 98_999)),
        # Hardly any: no number is believed, and time alone says how far to look.
        (1, (83_000, 98_999)),
    ],
)
def test_what_was_found_corrects_what_is_expected(found: int, next_range: tuple[int, int]) -> None:
    incarnation = IncarnationPlaces(
        id=1, slot_id=1, slot="shop/replview", number=1, commit_seq=99_999, rolled_seq=99_999
    )
    stream = PlacedStream(backwards=False, rank=1, incarnation=incarnation)
    stream.searches = True
    stream.blocks.extend(range(99, 0, -1))
    stream.expected = dict.fromkeys(stream.blocks, 60.0)
    [read] = stream.next_ranges(60)
    assert read == (99_000, 99_999)

    rows = [(WHEN, SimpleNamespace(id=seq, commit_seq=seq)) for seq in range(found)]
    stream.take([read], [rows], limit=100)

    assert stream.next_ranges(120) == [next_range]
