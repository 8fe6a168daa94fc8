"""What the record can vouch for: from when to when, with which gaps, and what was published.

"No change" is an answer only inside coverage: between ``vouched_since`` and ``stored_until``, of a
table that was published with these operations all the while. All moments err on the cautious side.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.lapses import lapse_text
from replview.store.read.rows import Slot
from replview.store.read.session import ReadSession
from replview.store.read.table_coverage import OPERATIONS, TableCoverage, table_coverage

#: Gaps that are told at most, the newest first.
MOST_GAPS = 50
#: Between a server's position and our noting when, at most (``features.sampling.sample``).
_SAMPLE_SECONDS = 5
#: So many samples are looked at for one that the record has reached.
_SAMPLES = 2000

# The newest sample that the record has reached; a constant bound leaves out partitions.
_REACHED = """
    SELECT max(s.sampled_at) FROM (
        SELECT sampled_at, current_lsn FROM slot_sample
        WHERE slot_id = %(slot)s AND sampled_at > %(since)s
        ORDER BY sampled_at DESC LIMIT %(samples)s) AS s
    WHERE s.current_lsn <= %(checkpoint)s
"""

# An incarnation begins where its slot stood: everything that committed after its first transaction
# is in the record, also where the slot was adopted and that was long before we came.
# Its row comes first, the gaps after it, the newest first; a baseline is looked for by its number.
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
# What a gap swallowed lies after the last commit of the incarnation before it.
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
# Changes of the table that may be missing, of the time since it was first published; rows that went
# with a partition are no changes. Kind and operations stand where others have words.
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
#: Samples are looked for in so much time first.
_LATELY = dt.timedelta(days=1)
#: Of a slot that never connected.
_NOTHING = ("", None, None, None, None, 0, None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class ArchiveExtent:
    #: The first commit there; None: unknown.
    since: dt.datetime | None
    #: The last one.
    until: dt.datetime | None


def _archive_extent(text: str | None) -> ArchiveExtent | None:
    """As ``_ARCHIVE`` gives it."""
    known = {} if text is None else orjson.loads(text)
    if known.get("since") is None:
        return None
    since, until = (
        None if known[moment] is None else dt.datetime.fromisoformat(known[moment])
        for moment in ("since", "until")
    )
    return ArchiveExtent(since, until)


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which something is missing from the record."""

    #: ``gap`` (between two incarnations), ``skipped`` (left out by somebody's decision) or
    #: ``unpublished`` (of the table alone).
    kind: str
    #: None: since ever.
    from_time: dt.datetime | None
    to_time: dt.datetime
    from_lsn: str | None
    to_lsn: str | None
    #: One sentence.
    why: str
    #: The incarnation of the slot that begins after it, or that it is in; None where not known.
    incarnation: int | None

    @property
    def is_time(self) -> bool:
        """Whether anything may be missing of the time; not only one transaction."""
        return self.kind != "skipped"

    def overlaps(self, since: dt.datetime | None, until: dt.datetime | None) -> bool:
        """Whether something of it lies in a time; None: unbounded."""
        return (since is None or self.to_time >= since) and (
            until is None or self.from_time is None or self.from_time <= until
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """The extent of one slot's record, and of one table in it."""

    slot: Slot
    #: How many incarnations the slot has had; 0: nothing was recorded yet.
    incarnations: int
    #: Of what is kept: days may have been deleted to make room (``store.retention.deletion``).
    recorded_since: dt.datetime | None
    recorded_since_lsn: str | None
    #: Everything that committed until then is stored; None: unknown.
    stored_until: dt.datetime | None
    stored_until_lsn: str | None
    #: Those in the time asked for, the newest first.
    gaps: tuple[Gap, ...]
    #: Gaps before then are not told, there are too many; None: all are.
    gaps_known_since: dt.datetime | None
    #: The time asked for; None: unbounded.
    since: dt.datetime | None
    until: dt.datetime | None
    #: What came from another server (with an origin) is not received: ``origin = none``.
    origin_filtered: bool
    table: TableCoverage | None = None
    #: What an archive has of the slot, slower to ask; None: there is none, or nothing in it yet.
    archive: ArchiveExtent | None = None

    @property
    def end(self) -> dt.datetime | None:
        """The end of the time asked for, as far as it is stored; None: not known."""
        moments = [m for m in (self.until, self.stored_until) if m is not None]
        return None if self.stored_until is None else min(moments)

    @property
    def vouched_since(self) -> dt.datetime | None:
        """Return the time from which until ``end`` nothing is missing (of a table: of what it
        publishes); None: unknown.
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
        """Whether "no change" may be said of a time in which none was found: from ``since`` (None:
        ``vouched_since``) until ``until`` (None: ``end``), which are to be named with it.
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
        # Before the last gap: between two others, all may be there.
        beginnings = [self.recorded_since, self.gaps_known_since, self.since]
        if self.table is not None:
            beginnings.append(self.table.published_since)
        begun = all(since >= moment for moment in beginnings if moment is not None)
        gap = any(gap.overlaps(since, until) for gap in self.gaps)
        return begun and since <= until <= end and not gap


def coverage_of(
    session: ReadSession,
    slot: Slot,
    *,
    table: tuple[str, str] | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
) -> Coverage:
    """Return the extent of a slot's record, with the gaps between ``since`` and ``until``: by two
    reads with a table (schema, table), one without; more where it has stopped or has a baseline.
    """
    checkpoint = None if slot.checkpoint_lsn is None else str(slot.checkpoint_lsn)
    schema, name = table or ("", "")
    wanted = {
        "slot": slot.pk, "schema": schema, "table": name, "checkpoint": checkpoint,
        "samples": _SAMPLES, "since": dt.datetime.now(dt.UTC) - _LATELY,
        "gaps_since": since or _BEGINNING, "gaps": MOST_GAPS + 1,
    }  # fmt: skip
    rows = session.rows(_EXTENT, wanted)
    extent = next((row for row in rows if not row[0]), None)
    _, _, started_at, lsn, _, number, first_commit, baseline_id, sampled_at, kept, archive = (
        extent or _NOTHING
    )
    recorded_since, lsn = _beginning(started_at, first_commit, lsn, kept)
    gaps, known_since = _gaps(rows, f"{schema}.{name}", since, until)
    if extent is not None and sampled_at is None:
        sampled_at = session.rows(_REACHED, {**wanted, "since": _BEGINNING})[0][0]
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
    lsn: str | None, kept: str | None,
) -> tuple[dt.datetime | None, str | None]:  # fmt: skip
    """Since when and which LSN the record is kept; ``kept``: retention's part of it, as JSON."""
    recorded_since = min(filter(None, (started_at, first_commit)), default=None)
    if kept is not None and recorded_since is not None:
        # Earlier days were deleted (``store.retention.deletion``).
        retained = orjson.loads(kept)
        recorded_since = max(recorded_since, dt.datetime.fromisoformat(retained["since"]))
        lsn = retained["lsn"] or lsn
    return recorded_since, lsn


def _stored_until(slot: Slot, sampled_at: dt.datetime | None) -> dt.datetime | None:
    """The last stored commit, or a later moment at which the server stood no further."""
    sampled = sampled_at and sampled_at - dt.timedelta(seconds=_SAMPLE_SECONDS)
    return max(filter(None, (slot.last_commit_time, sampled)), default=None)


def _lapses(rows: Sequence[tuple[Any, ...]], name: str) -> Iterator[Gap]:
    """The times in which changes of the table ``name`` may not have been published."""
    for kind, what, at, from_lsn, to_lsn, _, from_time in rows:
        of, operations = what.split(" ")
        why = f"{name} was {lapse_text(of, operations, from_time, at)}."
        yield Gap(kind, from_time, at, from_lsn, to_lsn, why, None)


def _gaps(
    rows: Sequence[tuple[Any, ...]],
    name: str,
    since: dt.datetime | None,
    until: dt.datetime | None,
) -> tuple[tuple[Gap, ...], dt.datetime | None]:
    """The gaps of the slot and of the table ``name`` in that time, and since when all are told."""
    own = [row[:7] for row in rows if row[0] in ("gap", "skipped")]
    lapses = [row[:7] for row in rows if row[0] == "unpublished"]
    found = [
        Gap(kind, from_time, at, from_lsn or None, to_lsn or None, why, number)
        for kind, why, at, from_lsn, to_lsn, number, from_time in own[:MOST_GAPS]
    ]
    found += _lapses(lapses[:MOST_GAPS], name)
    cut = [each[MOST_GAPS - 1][2] for each in (own, lapses) if len(each) > MOST_GAPS]
    told = sorted(found, key=lambda gap: gap.to_time, reverse=True)
    return tuple(gap for gap in told if gap.overlaps(since, until)), max(cut, default=None)
