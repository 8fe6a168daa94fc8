"""One process of the generator: its share of the transactions, written by binary COPY.

Usage: ``python -m tests.benchmarks.pages.writing`` with its task as JSON on standard input; prints
what it counted of the transactions that the processes share.
"""

import datetime as dt
import json
import random
import sys
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import psycopg

from replview.store.write.copy_rows import (
    NULL,
    CopiedTransaction,
    pack_jsonb,
    pack_seq_lsn,
    pack_subxid,
    row_head,
)
from tests.benchmarks.pages.batch import Batch
from tests.benchmarks.pages.people import ACTORS, ORIGINS, RARE_ACTOR
from tests.benchmarks.pages.rows import Piece, TableRows
from tests.benchmarks.pages.scale import CHANGE_WAL_BYTES, Plan, Scale
from tests.benchmarks.pages.shared import identifier, moment, sum_up
from tests.benchmarks.pages.tables import HOT, RARE, SEARCHED, tables

_PIECE_BYTES = 8 << 20
_OPERATION = {"I": 0, "U": 1, "D": 2, "T": 3, "S": 0}
_MESSAGE_HEAD = NULL + NULL + b"\x00\x00\x00\x01M" + NULL
_SEARCHED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The part of the record that one process of the generator writes."""

    dsn: str
    worker: int
    workers: int
    changes: int
    transactions: int
    tables: int
    end: str
    #: The slot's two incarnations, and where its identifiers begin.
    incarnations: list[int]
    first_id: int
    #: By table: its relation, its versions and from which transaction on each was in force.
    relations: list[tuple[int, list[int], list[int]]]


class Writer:
    """Makes the transactions of one process and writes them."""

    def __init__(self, task: Task) -> None:
        self.task = task
        end = dt.datetime.fromisoformat(task.end)
        scale = Scale(changes=task.changes, transactions=task.transactions, tables=task.tables)
        self.plan = Plan(scale, end)
        self.draw = random.Random(task.worker)
        self.tables = [
            TableRows(table, *relation, task.worker, task.workers)
            for table, relation in zip(tables(task.tables), task.relations, strict=True)
        ]
        usual = [0 if n in (HOT, RARE) else 1 / (n + 1) ** 0.9 for n in range(len(self.tables))]
        if task.tables > HOT:
            usual[HOT] = 0.05
        self._weights = list(accumulate(usual))
        self._actors = list(accumulate(1 / (n + 1) for n in range(len(ACTORS) - 1)))
        self.batch = Batch()
        #: Counts of the transactions that all processes write together.
        self.shared: dict[int, dict[int, list[int]]] = {}

    def run(self, connection: psycopg.Connection[Any]) -> None:
        """Every transaction of ours, and our part of those that are shared."""
        task, plan = self.task, self.plan
        for n in range(plan.scale.transactions):
            if n in (plan.snapshot, plan.large):
                self._part_of_shared(n, connection)
            elif n % task.workers == task.worker:
                self._transaction(n)
            if self.batch.size_bytes > _PIECE_BYTES:
                self.batch.write(connection)
        self.batch.write(connection)

    def _tables_of(self, n: int) -> list[TableRows]:
        """Draw the tables that transaction ``n`` changes, and set them to its table versions."""
        all_tables, draw = self.tables, self.draw
        number = len(all_tables)
        if number > RARE and n % (self.plan.scale.transactions // 20) == 11:
            found = [all_tables[RARE]]
        elif n >= self.plan.last_day and number > SEARCHED and draw.random() < _SEARCHED_SHARE:
            found = [all_tables[SEARCHED]]
        else:
            count = 1 if self.plan.sizes[n] < 3 else draw.randrange(1, 4)
            found = draw.choices(all_tables, cum_weights=self._weights, k=count)
        for table in found:
            table.at(n)
        return found

    def _row(self, n: int) -> CopiedTransaction:
        """The transaction's row without its counts."""
        plan, task = self.plan, self.task
        time_us = plan.time_us(n)
        lasted_us = 0
        gid = None
        if n % 100 == 50 and plan.sizes[n] > 1:
            gid = f"order-{n:08d}"
            # From ten milliseconds to three days, every magnitude as often.
            lasted_us = int(10_000 * 2.6e7 ** self.draw.random())
            lasted_us = min(lasted_us, time_us - plan.start_us)
        second = int(n >= plan.second_incarnation)
        row = CopiedTransaction(
            id=identifier(task.first_id + n, time_us - lasted_us),
            incarnation_id=task.incarnations[second],
            received_at_us=time_us - lasted_us + 40_000,
            xid=1000 + n,
            state=plan.state(n),
            gid=gid,
            commit_seq=plan.commit_seq(n),
            first_lsn=plan.lsn(n) + CHANGE_WAL_BYTES,
            commit_lsn=plan.commit_lsn(n),
            end_lsn=plan.commit_lsn(n) + 48,
            commit_time_us=time_us,
        )
        if gid is not None:
            row.prepared_at_us = time_us - lasted_us
            row.prepare_lsn = row.commit_lsn - 64 if row.commit_lsn else None
        if row.state in ("aborted", "rolled back"):
            row.ended_at_us, row.commit_time_us, row.streamed = time_us, None, gid is None
        self._name(row, n)
        return row

    def _name(self, row: CopiedTransaction, n: int) -> None:
        """Set the transaction's actor and origin."""
        draw = self.draw
        if n % 20 == 13:
            row.origin = draw.choice(ORIGINS)
        if n % (self.plan.scale.transactions // 5) == 3:
            row.actor, row.actor_grade = RARE_ACTOR, "claimed"
        elif draw.random() < 0.6:
            row.actor = draw.choices(ACTORS[:-1], cum_weights=self._actors)[0]
            row.actor_grade = "claimed" if draw.random() < 0.7 else "stamped"
        if row.actor_grade == "claimed":
            row.context = {"request_id": f"{draw.getrandbits(64):016x}", "path": "/checkout"}

    def _transaction(self, n: int) -> None:
        row = self._row(n)
        size = self.plan.sizes[n]
        base = self.plan.lsn(n)
        head = row_head(row.id)
        write = self.batch.changes.append
        first = 1
        if row.state == "message" or (row.actor is not None and size > 1):
            piece = self._message(row)
            lsn = pack_seq_lsn(4, 1, 8, base + CHANGE_WAL_BYTES)
            write(b"".join((head, lsn, piece[1], NULL, piece[2])))
            row.messages, first = 1, 2
        if row.state == "skipped":
            size = 0
        found = self._tables_of(n) if first <= size else []
        undone = row.state in ("aborted", "rolled back")
        aborted = range(3, min(size, 8)) if n % 211 == 17 and not undone else range(0)
        for seq in range(first, size + 1):
            # Runs of a few changes meet the same table.
            table = found[seq // 4 % len(found)]
            subxid = NULL
            if undone or seq in aborted:
                op, before, after = table.without_effect(self.draw)
                subxid = pack_subxid(8, 1001 + n)
            else:
                op, before, after = table.any_change(self.draw)
            if seq not in aborted:
                _count(row.relations, table.relation_id, op)
            if not undone:  # whose changes were swept away long ago
                lsn = pack_seq_lsn(4, seq, 8, base + CHANGE_WAL_BYTES * seq)
                write(b"".join((head, lsn, before, subxid, after)))
        sum_up(row, size)
        if aborted:
            self._tombstone(row, len(aborted))
        self._done(row, size)

    def _done(self, row: CopiedTransaction, size: int) -> None:
        batch = self.batch
        batch.size_bytes += size * 400 + 300
        time_us = row.commit_time_us or row.ended_at_us or row.received_at_us
        batch.rows.append(row.pack(time_us + 60_000))
        if row.gid is not None and row.prepared_at_us is not None:
            for state, at_us in (("prepared", row.prepared_at_us), (row.state, time_us)):
                at = moment(at_us)
                batch.transitions.append((row.id, state, None, at, at))

    def _tombstone(self, row: CopiedTransaction, changes: int) -> None:
        row.aborted_changes = changes
        at = None if row.commit_time_us is None else moment(row.commit_time_us)
        self.batch.tombstones.append((row.id, row.xid + 1, None, at, changes, False))  # type: ignore[operator]

    def _message(self, row: CopiedTransaction) -> Piece:
        """A logical message: who it is, or the application's own word."""
        transactional = row.state != "message"
        content = json.dumps({"actor": row.actor, **(row.context or {})})
        text = {"prefix": "replview" if transactional else "heartbeat", "content": content,
                "transactional": transactional}  # fmt: skip
        packed = json.dumps(text).encode()
        return "M", _MESSAGE_HEAD, NULL + NULL + pack_jsonb(len(packed) + 1, 1) + packed + NULL

    def _part_of_shared(self, n: int, connection: psycopg.Connection[Any]) -> None:
        """Our part of the changes of a transaction that all processes write: an import of a night
        into five tables, or the rows of a baseline.
        """
        plan, task = self.plan, self.task
        snapshot = n == plan.snapshot
        time_us = plan.time_us(n)
        head, base = row_head(identifier(task.first_id + n, time_us)), plan.lsn(n)
        found = self.tables[:1] if snapshot else self.tables[:5]
        for table in found:
            table.at(n)
        counts: dict[int, list[int]] = {}
        for seq in range(1 + task.worker, plan.sizes[n] + 1, task.workers):
            table = found[0] if snapshot else found[seq // 1000 % len(found)]
            op, before, after = table.insert("S") if snapshot else table.any_change(self.draw)
            lsn = plan.commit_lsn(n) if snapshot else base + CHANGE_WAL_BYTES * seq
            self.batch.changes.append(head + pack_seq_lsn(4, seq, 8, lsn) + before + NULL + after)
            _count(counts, table.relation_id, op)
            self.batch.size_bytes += 400
            if self.batch.size_bytes > _PIECE_BYTES:
                self.batch.write(connection)
        self.shared[n] = counts


def _count(relations: dict[int, list[int]], relation_id: int, op: str) -> None:
    counts = relations.get(relation_id)
    if counts is None:
        counts = relations[relation_id] = [0, 0, 0, 0]
    counts[_OPERATION[op]] += 1


def main() -> None:
    """Write, and say what was counted of the shared ones."""
    task = Task(**json.load(sys.stdin))
    writer = Writer(task)
    with psycopg.connect(task.dsn, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        writer.run(connection)
    print(json.dumps(writer.shared))


if __name__ == "__main__":
    main()
