"""The extent of a slot's record: its first and last moment, its gaps, and what was published.

"No change" is an answer only inside the coverage: between ``vouched_since`` and ``end``, for a
table whose publications published these operations all that time. Every moment errs on the cautious
side.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.lapses import lapse_text
from replview.store.read.rows import QueriedSlot
from replview.store.read.session import ReadSession
from replview.store.read.table_coverage import OPERATIONS, TableCoverage, table_coverage

#: Samples are taken every few seconds; an older one does not describe the present. This is the
#: least: where ``sampling.seconds`` is long, see ``health.source_state.stale_after``.
STALE_AFTER = dt.timedelta(seconds=30)
#: Gaps that are reported at most, the newest first.
MOST_GAPS = 50
#: Seconds that at most pass between reading a server's position and noting the time
#: (``features.sampling.sample``).
_SAMPLE_SECONDS = 5
#: Samples that are searched at most for one that the record has reached.
_SAMPLES = 2000

# The newest sample that the record has reached. The bound on sampled_at is a constant, so that the
# planner can exclude partitions.
_REACHED = """
    SELECT max(s.sampled_at) FROM (
        SELECT sampled_at, current_lsn FROM slot_sample
        WHERE slot_id = %(slot)s AND sampled_at > %(since)s
        ORDER BY sampled_at DESC LIMIT %(samples)s) AS s
    WHERE s.current_lsn <= %(checkpoint)s
"""

# An incarnation begins at its slot's position: the record holds everything that committed after its
# first transaction, even if an adopted slot is much older than the receiver. The incarnation's row
# comes first, then the gaps, newest first. The baseline is read later by the identifier that this
# returns.
_EXTENT = """
    (SELECT '', NULL, i.started_at, i.started_lsn::text, NULL,
           (SELECT count(*) FROM slot_incarnation WHERE slot_id = %(slot)s),
           (SELECT t.commit_time FROM transaction t
             WHERE t.incarnation_id = i.id AND t.commit_seq > 0 AND t.state <> 'snapshot'
               AND t.commit_time IS NOT NULL ORDER BY t.commit_seq LIMIT 1),
           (SELECT max(b.id) FROM baseline b WHERE b.slot_id = %(slot)s AND b.state = 'done'
               AND b.schema = %(schema)s AND b."table" = %(table)s),
           (REACHED),
           (SELECT value->%(slot)s::text FROM setting WHERE name = 'retention.slots'), (ARCHIVE)
    FROM slot_incarnation i WHERE i.slot_id = %(slot)s ORDER BY i.number LIMIT 1)
    UNION ALL (SELECT * FROM (
"""
# The changes that a gap lost lie after the last commit of the incarnation before the gap.
_GAPS = """
    SELECT e.kind, e.message, e.at, e.detail->>'from_lsn', e.detail->>'to_lsn', i.number,
           CASE WHEN e.kind = 'gap' THEN coalesce(last.commit_time, former.started_at)
                ELSE left_out.commit_time END, NULL::bigint, NULL::timestamptz, NULL::jsonb,
           NULL::jsonb
    FROM slot_event e
    LEFT JOIN slot_incarnation i ON i.id = e.incarnation_id
    LEFT JOIN slot_incarnation former
           ON former.slot_id = e.slot_id AND former.number = i.number - 1 AND e.kind = 'gap'
    LEFT JOIN LATERAL (
        SELECT t.commit_time FROM transaction t
        WHERE t.incarnation_id = former.id AND t.commit_seq IS NOT NULL
          AND t.state <> 'snapshot' AND t.commit_time IS NOT NULL
        ORDER BY t.commit_seq DESC LIMIT 1) last ON true
    LEFT JOIN transaction left_out
           ON e.kind = 'skipped' AND left_out.id = (e.detail->>'transaction')::bigint
    WHERE e.slot_id = %(slot)s AND e.kind IN ('gap', 'skipped') AND e.at >= %(gaps_since)s
    ORDER BY e.at DESC LIMIT %(gaps)s) g)
    UNION ALL (SELECT * FROM (
"""
# Times in which changes of the table may be missing, from its first publication on. Rows that went
# with a dropped partition (operation T alone) are not changes. The kind and the operations take the
# place of the message.
_LAPSES = """
    SELECT 'unpublished', concat(l.kind, ' ', l.operations), l.to_at, l.from_lsn::text,
           l.to_lsn::text, NULL::int, l.from_at, NULL::bigint, NULL::timestamptz, NULL::jsonb,
           NULL::jsonb
    FROM publication_lapse l
    WHERE l.slot_id = %(slot)s AND l.from_at IS NOT NULL AND l.operations <> 'T'
      AND l.to_at >= %(gaps_since)s
      AND (l.schema = %(schema)s AND l."table" = %(table)s OR l.relation_oid IN (
          SELECT r.oid FROM relation r
          WHERE r.slot_id = %(slot)s AND r.schema = %(schema)s AND r."table" = %(table)s))
    ORDER BY l.to_at DESC LIMIT %(gaps)s) l)
"""
#: The archive's extent of ``%(slot)s`` as JSON; NULL without an archive.
_ARCHIVE = """
    SELECT jsonb_build_object(
        'since', (array_agg(m.since_time ORDER BY l.number))[1],
        'until', max(m.through_time))
    FROM archive_mark m JOIN slot_incarnation l ON l.id = m.incarnation_id
    WHERE l.slot_id = %(slot)s AND m.since_seq IS NOT NULL
      AND m.target = (SELECT value #>> '{}' FROM setting WHERE name = 'archive.target')
    HAVING count(*) > 0
"""
_EXTENT = f"{_EXTENT}{_GAPS}{_LAPSES}".replace("REACHED", _REACHED).replace("ARCHIVE", _ARCHIVE)
_BEGINNING = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
#: The first search for a sample goes back this far; only if it finds none, all samples are
#: searched.
_RECENTLY = dt.timedelta(days=1)
#: The row of ``_EXTENT`` for a slot that never connected.
_NO_EXTENT = ("", None, None, None, None, 0, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class ArchiveExtent:
    """The times of a slot's first and last commit in the archive."""

    #: Time of the first commit in the archive; None: unknown.
    since: dt.datetime | None
    #: Time of the last commit in the archive; None: unknown.
    until: dt.datetime | None


def _archive_extent(text: str | None) -> ArchiveExtent | None:
    """Parse the JSON that ``_ARCHIVE`` selects; None where the archive has nothing of the slot."""
    extent = {} if text is None else orjson.loads(text)
    if extent.get("since") is None:
        return None
    since, until = (
        None if extent[moment] is None else dt.datetime.fromisoformat(extent[moment])
        for moment in ("since", "until")
    )
    return ArchiveExtent(since, until)


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of time in which something is missing from the record."""

    #: ``gap`` (between two incarnations), ``skipped`` (one transaction, which somebody decided not
    #: to store) or ``unpublished`` (changes of the table alone).
    kind: str
    #: None: the gap has no known beginning.
    from_time: dt.datetime | None
    to_time: dt.datetime
    from_lsn: str | None
    to_lsn: str | None
    #: The reason, in one sentence.
    why: str
    #: Number of the slot's incarnation that begins after the gap, or that contains it; None:
    #: unknown.
    incarnation: int | None

    @property
    def is_time(self) -> bool:
        """Return whether any change of that time may be missing, and not only one transaction."""
        return self.kind != "skipped"

    def overlaps(self, since: dt.datetime | None, until: dt.datetime | None) -> bool:
        """Return whether the gap and a time have a moment in common; None: unbounded."""
        return (since is None or self.to_time >= since) and (
            until is None or self.from_time is None or self.from_time <= until
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """The extent of one slot's record, and of one table in it."""

    slot: QueriedSlot
    #: Number of incarnations the slot has had; 0: nothing was recorded yet.
    incarnations: int
    #: Beginning of what the store still holds: retention may have deleted earlier days
    #: (``store.retention.deletion``).
    recorded_since: dt.datetime | None
    recorded_since_lsn: str | None
    #: Everything that committed until this moment is stored; None: unknown.
    stored_until: dt.datetime | None
    stored_until_lsn: str | None
    #: Gaps that overlap the requested time, the newest first.
    gaps: tuple[Gap, ...]
    #: Gaps before this moment are not reported, as there are too many; None: all are.
    gaps_known_since: dt.datetime | None
    #: The requested time; None: unbounded.
    since: dt.datetime | None
    until: dt.datetime | None
    #: True when the stream leaves out what has a replication origin (``origin = none``).
    origin_filtered: bool
    table: TableCoverage | None = None
    #: The slot's extent in the archive, which is slower to query; None: no archive, or nothing in
    #: it.
    archive: ArchiveExtent | None = None

    @property
    def end(self) -> dt.datetime | None:
        """Return the end of the requested time, as far as it is stored; None: unknown."""
        moments = [m for m in (self.until, self.stored_until) if m is not None]
        return None if self.stored_until is None else min(moments)

    @property
    def vouched_since(self) -> dt.datetime | None:
        """Return the moment from which nothing is missing until ``end``; None: unknown.

        For a table, only published changes are promised.
        """
        moments = [self.recorded_since]
        if self.table is not None:
            moments.append(self.table.published_since)
        if any(moment is None for moment in moments):
            return None
        moments += [self.gaps_known_since, *(gap.to_time for gap in self.gaps), self.since]
        return max(moment for moment in moments if moment is not None)

    def says_no_change(
        self,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        operations: str = OPERATIONS,
    ) -> bool:
        """Return whether an empty result proves that nothing changed between two moments.

        ``since`` defaults to ``vouched_since`` and ``until`` to ``end``; a message that says "no
        change" has to name both.
        """
        vouched, end = self.vouched_since, self.end
        if vouched is None or end is None or self.origin_filtered:
            return False
        if self.table is not None and not self.table.publishes(operations):
            return False
        until = end if until is None else until
        since = vouched if since is None else since
        if since >= vouched:
            return since <= until <= end
        # The time begins before the end of the last gap. It is covered all the same if it lies
        # between two gaps.
        beginnings = [self.recorded_since, self.gaps_known_since, self.since]
        if self.table is not None:
            beginnings.append(self.table.published_since)
        begun = all(since >= moment for moment in beginnings if moment is not None)
        gap = any(gap.overlaps(since, until) for gap in self.gaps)
        return begun and since <= until <= end and not gap


def coverage_of(
    session: ReadSession,
    slot: QueriedSlot,
    *,
    table: tuple[str, str] | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
) -> Coverage:
    """Return the extent of a slot's record, with the gaps between ``since`` and ``until``.

    ``table`` is (schema, table). This takes one query, two with a table, and one more each for a
    slot without a recent sample and for a baseline.
    """
    checkpoint = None if slot.checkpoint_lsn is None else str(slot.checkpoint_lsn)
    schema, name = table or ("", "")
    params = {
        "slot": slot.pk, "schema": schema, "table": name, "checkpoint": checkpoint,
        "samples": _SAMPLES, "since": dt.datetime.now(dt.UTC) - _RECENTLY,
        "gaps_since": since or _BEGINNING, "gaps": MOST_GAPS + 1,
    }  # fmt: skip
    rows = session.rows(_EXTENT, params)
    extent = next((row for row in rows if not row[0]), None)
    _, _, started_at, lsn, _, number, first_commit, baseline_id, sampled_at, entry, archive = (
        extent or _NO_EXTENT
    )
    recorded_since, lsn = _beginning(started_at, first_commit, lsn, entry)
    gaps, known_since = _gaps(rows, f"{schema}.{name}", since, until)
    if extent is not None and sampled_at is None:
        sampled_at = session.rows(_REACHED, {**params, "since": _BEGINNING})[0][0]
    return Coverage(
        slot=slot, incarnations=int(number), recorded_since=recorded_since, recorded_since_lsn=lsn,
        stored_until=_stored_until(slot, sampled_at) if number else None,
        stored_until_lsn=checkpoint,
        gaps=gaps, gaps_known_since=known_since, since=since, until=until,
        origin_filtered=slot.options.get("origin") == "none",
        table=None if table is None else table_coverage(session, slot, *table, until, baseline_id),
        archive=_archive_extent(archive),
    )  # fmt: skip


def _beginning(
    started_at: dt.datetime | None, first_commit: dt.datetime | None,
    lsn: str | None, retention_entry: str | None,
) -> tuple[dt.datetime | None, str | None]:  # fmt: skip
    """Return the time and the LSN at which the stored record begins.

    ``retention_entry`` is the slot's entry in ``retention.slots``, as JSON.
    """
    recorded_since = min(filter(None, (started_at, first_commit)), default=None)
    if retention_entry is not None and recorded_since is not None:
        # Retention deleted earlier days (``store.retention.deletion``).
        retained = orjson.loads(retention_entry)
        recorded_since = max(recorded_since, dt.datetime.fromisoformat(retained["since"]))
        lsn = retained["lsn"] or lsn
    return recorded_since, lsn


def _stored_until(slot: QueriedSlot, sampled_at: dt.datetime | None) -> dt.datetime | None:
    """Return the time of the last stored commit, or of a later sample the record has reached."""
    sampled = sampled_at and sampled_at - dt.timedelta(seconds=_SAMPLE_SECONDS)
    return max(filter(None, (slot.last_commit_time, sampled)), default=None)


def _lapses(rows: Sequence[tuple[Any, ...]], name: str) -> Iterator[Gap]:
    """Yield the times in which changes of the table ``name`` may not have been published."""
    for kind, kind_and_operations, to_time, from_lsn, to_lsn, _, from_time in rows:
        lapse_kind, operations = kind_and_operations.split(" ")
        why = f"{name} was {lapse_text(lapse_kind, operations, from_time, to_time)}."
        yield Gap(kind, from_time, to_time, from_lsn, to_lsn, why, None)


def _gaps(
    rows: Sequence[tuple[Any, ...]],
    name: str,
    since: dt.datetime | None,
    until: dt.datetime | None,
) -> tuple[tuple[Gap, ...], dt.datetime | None]:
    """Return the gaps of the slot and of table ``name``, and since when they are complete."""
    slot_gaps = [row[:7] for row in rows if row[0] in ("gap", "skipped")]
    lapses = [row[:7] for row in rows if row[0] == "unpublished"]
    gaps = [
        Gap(kind, from_time, to_time, from_lsn or None, to_lsn or None, why, number)
        for kind, why, to_time, from_lsn, to_lsn, number, from_time in slot_gaps[:MOST_GAPS]
    ]
    gaps += _lapses(lapses[:MOST_GAPS], name)
    limits = [group[MOST_GAPS - 1][2] for group in (slot_gaps, lapses) if len(group) > MOST_GAPS]
    ordered = sorted(gaps, key=lambda gap: gap.to_time, reverse=True)
    return tuple(gap for gap in ordered if gap.overlaps(since, until)), max(limits, default=None)
