"""Determine how far exported history reaches, and why a computed result may be wrong."""

# All names in SQL are ours, and values of others are literals.
# ruff: noqa: S608

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from decoder.scalars import LSN
from replview.parquet.slices import Slice
from replview.spark.history.change_sql import nameless
from replview.spark.history.datasets import Dataset, ExportedIncarnation
from replview.spark.history.engines import Row, Session
from replview.spark.history.replay_piece import TRUNCATIONS
from replview.spark.history.spans import HistoryEnd, HistoryRange, by_then
from replview.spark.quoting import shared_literal

#: A place in history: commit LSN, and a change's seq in its transaction.
TruncationPosition = tuple[int, int]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Reach:
    """Facts about the exported rows of a table, read before a job."""

    rows: int
    #: Commit LSNs of the first and the last row; None without rows.
    first: int | None
    last: int | None
    #: Version number of the table at the last change.
    version: int | None
    #: Positions of the first and the last baseline; None without one.
    first_baseline: int | None
    last_baseline: int | None
    #: ``TRUNCATIONS`` in order.
    truncations: pa.Table
    #: Number of changes without a key.
    keyless: int

    @property
    def base(self) -> TruncationPosition | None:
        """Return the last place at which all rows of the table are known; None if there is none.

        It is a truncation, or the place just before the commit at a baseline's position.
        """
        places = (self.truncations[name][-1:].to_pylist() for name in ("_commit_version", "_seq"))
        known = [*zip(*places, strict=True)]
        if self.last_baseline is not None:
            known.append((self.last_baseline, -1))
        return max(known, default=None)


def read_reach(session: Session, dataset: Dataset, moment: HistoryEnd) -> Reach:
    """Read the facts in one pass over the changes and one over the events.

    Raises ``SparkProblem`` if the table has no key.
    """
    found = session.sql(
        f"""
        SELECT count(*) AS row_count, min(_commit_version) AS first_lsn,
            max(_commit_version) AS last_lsn,
            max_by(_relation_version, (_commit_version, _xid IS NOT NULL, _seq)) AS version,
            min(CASE WHEN _xid IS NULL THEN _commit_version END) AS first_baseline,
            max(CASE WHEN _xid IS NULL THEN _commit_version END) AS last_baseline,
            count(CASE WHEN {nameless(dataset)} THEN 1 END) AS keyless
        FROM {{changes}}
        """,
        changes=dataset.changes(session, moment),
    )
    [(rows, first, last, version, earliest, latest, keyless)] = found.collect()
    cuts = truncations(session, dataset, moment)
    return Reach(rows, first, last, version, earliest, latest, cuts, keyless)


def truncations(session: Session, dataset: Dataset, moment: HistoryEnd) -> pa.Table:
    """Return the ``TRUNCATIONS`` of the table by then, in order."""
    names = ", ".join(map(shared_literal, dataset.names))
    is_own = f"concat_ws('.', schema_name, table_name) IN ({names})"
    if dataset.oid:
        is_own = f"coalesce(relation_oid = {dataset.oid}, {is_own})"
    # Overlapping exports have a truncation several times.
    found = session.sql(
        f"""
        SELECT DISTINCT _commit_version, seq AS _seq, commit_time AS _commit_timestamp
        FROM {{events}}
        WHERE op = 'truncate' AND {is_own} AND {by_then(moment, time="commit_time")}
        """,
        events=dataset.incarnation.events(session),
    )
    rows = found.toArrow().cast(TRUNCATIONS)
    return rows.sort_by([("_commit_version", "ascending"), ("_seq", "ascending")])


def doubts(
    session: Session, dataset: Dataset, reach: Reach, moment: HistoryEnd, base: int | None
) -> list[str]:
    """Return sentences that say why rows computed from ``base`` to the moment may be wrong."""
    found = []
    if base is None:
        found.append(
            "nothing is exported of it by then: which rows it had is not known"
            if reach.first is None
            else f"history begins at {LSN(reach.first)} and reaches back to no baseline: rows that "
            "did not change since are missing"
        )
    if reach.keyless:
        found.append(f"{reach.keyless} changes do not say which row they are of, and are left out")
    low = base if base is not None else reach.first or 0
    row = _exported(session, dataset, moment, low)
    seqs = (row["before"] or 0, row["last"] or 0)
    if gone := deleted(dataset.incarnation, *seqs):
        found.append(f"{gone} of its transactions were deleted before they were exported")
    if row["skipped"]:
        found.append(f"{row['skipped']} transactions were left out of the record")
    found.extend(lapses(dataset, low, row["last_lsn"]))
    if base is not None and row["last"] is not None:
        found.extend(holes(dataset.incarnation, *seqs, dataset=dataset))
    return [*found, *_beyond(moment, row)]


def _exported(session: Session, dataset: Dataset, moment: HistoryEnd, low: int) -> Row:
    """Return facts about the exported transactions from a commit LSN to the moment."""
    within = f"_commit_version >= {low} AND {by_then(moment, time='commit_time')}"
    earlier = f"_commit_version < {low} AND state <> 'snapshot'"
    [row] = session.sql(
        f"""
        SELECT count(CASE WHEN {within} AND state = 'skipped' THEN 1 END) AS skipped,
            max(CASE WHEN {within} THEN commit_seq END) AS last,
            max(CASE WHEN {within} THEN _commit_version END) AS last_lsn,
            max(_commit_version) AS lsn, max(unix_micros(commit_time)) AS time,
            max(CASE WHEN {earlier} THEN commit_seq END) AS before
        FROM {{transactions}}
        """,
        transactions=dataset.incarnation.transactions(session),
    ).collect()
    return row


def _beyond(moment: HistoryEnd, row: Row) -> Iterator[str]:
    """Yield why the moment lies beyond what is exported."""
    if moment.lsn is not None and (row["lsn"] is None or row["lsn"] < moment.lsn):
        yield f"what is exported ends {_at(row['lsn'])}, before the moment asked for"
    last = _moment(row["time"])
    if moment.time is not None and (last is None or last < moment.time):
        end = "before any" if last is None else f"at {last.isoformat()}"
        yield f"what is exported ends {end}, before the moment asked for"


def lapses(dataset: Dataset, low: int, high: int | None) -> Iterator[str]:
    """Yield the times between two LSNs in which changes of a table may not be published."""
    mine = (each for whole in dataset.incarnation.wholes for each in whole.lapses)
    found = {
        each.why
        for each in mine
        if each.oid == dataset.oid
        and (each.to_lsn is None or each.to_lsn > low)
        and (high is None or (each.from_lsn or 0) < high)
    }
    yield from sorted(found)


def deleted(incarnation: ExportedIncarnation, after: int, last: int) -> int:
    """Return how many transactions ``after < commit_seq <= last`` the store had deleted."""
    return sum(
        max(0, min(through, last) - max(begin, after))
        for whole in incarnation.wholes
        for begin, through in whole.deleted
    )


def holes(
    incarnation: ExportedIncarnation, after: int, last: int, *, dataset: Dataset | None = None
) -> Iterator[str]:
    """Yield what manifests do not cover of the transactions ``after < commit_seq <= last``.

    ``dataset`` limits this to one table's changes; None means all tables.
    """
    slices = [whole.part for whole in incarnation.wholes]
    if not slices:
        yield "no manifest says that what is exported is whole"
        return
    wholes = [part for part in slices if _all_of(part, dataset)]
    covered = after
    for part in sorted(wholes, key=lambda each: (each.after_seq, each.through_seq)):
        if part.after_seq <= covered:
            covered = max(covered, part.through_seq)
    if covered < last:
        filtered = "" if len(wholes) == len(slices) else (
            " (slices narrowed by table, operation, actor, time or else do not count)"
        )  # fmt: skip
        yield f"transactions {covered + 1} to {last} of it are not exported whole{filtered}"


def _all_of(part: Slice, dataset: Dataset | None) -> bool:
    """Return whether a slice has all changes of its transactions, of the table or of all."""
    if part.operations or part.actors or part.narrowed:
        return False
    if part.since is not None or part.until is not None:
        return False
    return not part.tables or (dataset is not None and dataset.is_among(part.tables))


def span_doubts(
    session: Session,
    incarnation: ExportedIncarnation,
    span: HistoryRange,
    datasets: Sequence[Dataset] = (),
) -> tuple[str, ...]:
    """Return sentences that say why the export may lack a part of the span; empty if it does not.

    They are about these tables, or about transactions without tables. An open end stands for the
    end of what is exported.
    """
    within = span.within(time="commit_time")
    [row] = session.sql(
        f"""
        SELECT count(CASE WHEN {within} AND state = 'skipped' THEN 1 END) AS skipped,
            min(CASE WHEN {within} THEN commit_seq END) AS first,
            max(CASE WHEN {within} THEN commit_seq END) AS last,
            min(CASE WHEN {within} THEN _commit_version END) AS low,
            max(CASE WHEN {within} THEN _commit_version END) AS high,
            min(_commit_version) AS first_lsn, max(_commit_version) AS last_lsn,
            min(unix_micros(commit_time)) AS first_time, max(unix_micros(commit_time)) AS last_time
        FROM {{transactions}} WHERE state <> 'snapshot'
        """,
        transactions=incarnation.transactions(session),
    ).collect()
    found = _beyond_span(span, row)
    if row["last"] is None:
        return (*found, "no transaction of that time is exported")
    seqs = (row["first"] - 1, row["last"])
    if gone := deleted(incarnation, *seqs):
        found.append(f"{gone} of its transactions were deleted before they were exported")
    if row["skipped"]:
        found.append(f"{row['skipped']} transactions were left out of the record")
    for one in datasets or (None,):
        found.extend(holes(incarnation, *seqs, dataset=one))
        if one is not None:
            found.extend(lapses(one, row["low"], row["high"]))
    # A sentence that is the same for all tables appears once.
    return tuple(dict.fromkeys(found))


def _beyond_span(span: HistoryRange, row: Row) -> list[str]:
    """Return the ends of the span that lie beyond what is exported."""
    first, last = (_moment(row[name]) for name in ("first_time", "last_time"))
    before, after = [], []
    if span.to_lsn is not None and (row["last_lsn"] or 0) < span.to_lsn:
        before.append(_at(row["last_lsn"]))
    if span.until is not None and last is not None and last < span.until:
        before.append(f"at {last.isoformat()}")
    if span.from_lsn is not None and (row["first_lsn"] or 0) > span.from_lsn:
        after.append(_at(row["first_lsn"]))
    if span.since is not None and first is not None and first > span.since:
        after.append(f"at {first.isoformat()}")
    return [
        *(f"what is exported ends {end}, before the end asked for" for end in before),
        *(f"what is exported begins {end}, after the beginning asked for" for end in after),
    ]


def _at(lsn: int | None) -> str:
    return "before any" if lsn is None else f"at {LSN(lsn)}"


def _moment(micros: int | None) -> dt.datetime | None:
    return None if micros is None else _EPOCH + dt.timedelta(microseconds=micros)
