"""Answer from the archive without a JVM: a transaction with its changes, the changes of a row.

Manifests tell which files can have the changes, and filters limit what is read of them. Slices that
were compacted meanwhile are looked up again. No store is needed. All functions raise
``TargetProblem``.
"""

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from replview.parquet.archive import changes
from replview.parquet.writing.layout import MANIFESTS, SCHEMA, TRANSACTIONS, encoded, range_of_name
from replview.parquet.writing.manifests import manifests
from replview.parquet.writing.problems import TargetProblem, raising_problems
from replview.parquet.writing.targets import Target

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ArchivedIncarnation:
    """One incarnation of a slot below an archive's root."""

    target: Target
    folder: str

    @classmethod
    def of(cls, url: str, source: str, slot: str, number: int) -> Self:
        """Return the place of an incarnation's folder, whether it is there or not."""
        return cls(Target.of(url), f"{encoded(source)}/{encoded(slot)}-{number}")

    def transaction(
        self,
        commit_seq: int | None = None,
        *,
        commit_lsn: int | None = None,
        commit_time: dt.datetime | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> changes.ArchivedTransaction | None:
        """Return a transaction by its commit_seq, or its commit's LSN and time; None: not found."""
        return _twice(lambda: self._transaction(commit_seq, commit_lsn, commit_time, after, limit))

    def _transaction(
        self, commit_seq: int | None, commit_lsn: int | None, commit_time: dt.datetime | None,
        after: int, limit: int,
    ) -> changes.ArchivedTransaction | None:  # fmt: skip
        if commit_seq is None:
            assert commit_lsn is not None
            commit_seq = self.seq_at(commit_lsn, commit_time)
        manifest = None if commit_seq is None else self._manifest_of(commit_seq)
        if manifest is None or commit_seq is None:
            return None
        here = pc.field("commit_seq") == commit_seq
        files = changes.files_of(manifest, "transactions", commit_seq)
        rows = [row for file in files for row in self._rows(file["path"], here)]
        if not rows:
            return None
        facts = rows[-1]
        found = self._changes(manifest, facts, after, limit + 1)
        return changes.ArchivedTransaction(facts, found[:limit], len(found) > limit)

    def row(
        self,
        oids: Sequence[int],
        key: Mapping[str, str | None],
        *,
        cursor: str | None = None,
        limit: int = 50,
        seconds: float = 4.0,
    ) -> changes.RowChanges:
        """Return changes of rows with this key in tables of these oids, the newest first.

        ``cursor``: ``older`` of the page before; one that cannot be read begins with the newest.
        """
        return _twice(lambda: self._row(oids, key, changes.parse_cursor(cursor), limit, seconds))

    def _row(
        self, oids: Sequence[int], key: Mapping[str, str | None],
        begin: tuple[int, int, int] | None, limit: int, seconds: float,
    ) -> changes.RowChanges:  # fmt: skip
        deadline = time.monotonic() + seconds
        found: list[changes.ArchivedChange] = []
        for name in reversed(self._names()):
            after, through = range_of_name(name) or (0, 0)
            if begin is not None and after >= begin[0]:
                continue
            # Oldest first, each with the last commit_seq in it or in a file before it.
            manifest = self._read(name)
            mine = [file for file in changes.files_of(manifest, "table")
                    if changes.oid_of(manifest, file) in oids]  # fmt: skip
            ends = accumulate((f.get("commit_seq", {"last": through})["last"] for f in mine), max)
            files, (bound, given) = _from(begin, [*zip(mine, ends, strict=True)])
            begin = None
            for file, last in files:
                cursor = f"{last}.{changes.tag(file)}."
                if time.monotonic() > deadline:
                    return changes.RowChanges(found, f"{cursor}{given}", changes.day_of(file))
                some, rest = self._of_key(file, key, bound, given, limit - len(found))
                found += some
                if rest:
                    return changes.RowChanges(found, f"{cursor}{given + len(some)}")
                given = 0
        return changes.RowChanges(found, None)

    def _of_key(
        self, file: Mapping[str, Any], key: Mapping[str, str | None], bound: int | None,
        given: int, most: int,
    ) -> tuple[list[changes.ArchivedChange], bool]:  # fmt: skip
        """Return a file's last changes, newest first, and whether there are more.

        ``bound``: the last commit_seq to return; None: any. ``given``: changes to skip.
        """
        dataset = self.target.dataset(file["path"])
        where = changes.key_filter(dataset.schema, key)
        if where is None:
            return [], False
        if bound is not None:
            where &= pc.field("_commit_seq") <= bound
        with raising_problems():
            places = dataset.to_table(columns=["_commit_version", "_xid", "_seq"], filter=where)
        pairs = list(dict.fromkeys(tuple(row.values()) for row in places.to_pylist()))[::-1]
        chosen = set(pairs[given : given + most])
        if not chosen:
            return [], len(pairs) > given
        lsns = pa.array(sorted({place[0] for place in chosen}), pa.int64())
        seqs = pa.array(sorted({place[2] for place in chosen}), pa.int32())
        with raising_problems():
            rows = dataset.to_table(
                filter=pc.field("_commit_version").isin(lsns) & pc.field("_seq").isin(seqs)
            )
        found = changes.changes_of(rows, self._shapes(file["dataset"]))
        found = [each for each in found if (each.commit_lsn, each.xid, each.seq) in chosen]
        return found[::-1], len(pairs) > given + most

    def _changes(
        self, manifest: Mapping[str, Any], facts: Mapping[str, Any], after: int, most: int
    ) -> list[changes.ArchivedChange]:
        """Return a transaction's changes in order, of all tables, events included."""
        found: list[changes.ArchivedChange] = []
        events = (pc.field("commit_seq") == facts["commit_seq"]) & (pc.field("seq") > after)
        for file in changes.files_of(manifest, "events", facts["commit_seq"]):
            if facts["truncates"] or facts["messages"] or facts["state"] == "message":
                with raising_problems():
                    rows = self.target.dataset(file["path"]).head(most, filter=events)
                found += map(changes.event_of, rows.to_pylist())
        lsn = facts["_commit_version"]
        if lsn is not None:
            of_it = (pc.field("_commit_version") == lsn) & (pc.field("_seq") > after)
            xid = pc.field("_xid")
            of_it &= xid.is_null() if facts["xid"] is None else xid == facts["xid"]
            for file in changes.files_of(manifest, "table", facts["commit_seq"]):
                if changes.lsn_of(file["first_lsn"]) <= lsn <= changes.lsn_of(file["last_lsn"]):
                    # An update may have two rows.
                    rows = self.target.dataset(file["path"]).head(2 * most, filter=of_it)
                    found += changes.changes_of(rows, self._shapes(file["dataset"]))[:most]
        return sorted(found, key=lambda change: change.seq)[:most]

    def seq_at(self, lsn: int, moment: dt.datetime | None) -> int | None:
        """Return the commit_seq of the transaction that committed at an LSN, on a day or on any."""
        folder = f"{self.folder}/{TRANSACTIONS}"
        if moment is not None:
            folder += f"/commit_date={moment.astimezone(dt.UTC).date()}"
        here = (pc.field("_commit_version") == lsn) & (pc.field("state") != "snapshot")
        for found in self.target.files(folder, deep=True):
            rows = self._rows(found.path, here)
            if rows and found.path.endswith(".parquet"):
                return int(rows[0]["commit_seq"])
        return None

    def _manifest_of(self, commit_seq: int) -> Mapping[str, Any] | None:
        for name in self._names():
            after, through = range_of_name(name) or (0, 0)
            if after < commit_seq <= through:
                return self._read(name)
        return None

    def _names(self) -> list[str]:
        """Return the names of whole slices, in the order of history."""
        return [f"{name}.json" for name in manifests(self.target, self.folder)]

    def _read(self, name: str) -> Mapping[str, Any]:
        document = self.target.read_json(f"{self.folder}/{MANIFESTS}/{name}")
        if document is None:
            raise TargetProblem("a slice of the archive is not there any more", "ask again")
        return document

    def _shapes(self, dataset: str) -> changes.ArchivedShapes:
        return changes.ArchivedShapes(self.target.read_json(f"{dataset}/{SCHEMA}") or {})

    def _rows(self, path: str, where: pc.Expression) -> list[dict[str, Any]]:
        with raising_problems():
            table = self.target.dataset(path).to_table(filter=where)
        return table.to_pylist()  # type: ignore[no-any-return]


def _from(
    begin: tuple[int, int, int] | None, files: Sequence[tuple[Mapping[str, Any], int]]
) -> tuple[list[tuple[Mapping[str, Any], int]], tuple[int | None, int]]:
    """Return the files to continue with, newest first, the bound, and the changes already given.

    Where the cursor's file was compacted, all files up to the bound follow, and some changes may be
    returned again.
    """
    newest = list(reversed(files))
    if begin is None:
        return newest, (None, 0)
    bound, tag, given = begin
    for place, (file, _) in enumerate(newest):
        if changes.tag(file) == tag:
            return newest[place:], (None, given)
    return newest, (bound, 0)


def _twice(ask: Callable[[], Answer]) -> Answer:
    """Repeat a query that failed, as a compaction may have replaced its slices meanwhile."""
    try:
        return ask()
    except TargetProblem:
        return ask()
