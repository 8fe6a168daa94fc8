"""The archive's progress: how far each incarnation was archived, and what is due next.

Settings: ``archive.target`` is the folder or URL, in the layout of exports; without it there is no
archive. ``archive.after_hours`` is the age at which a transaction is archived once all before it
can be (24). ``archive.every_seconds`` is the interval of writing (21600), unless a day is complete
or much is due. ``archive.asked_at`` archives what was stored before that time at once.

History is archived in order, by incarnation. A mark moves over a slice only after the rows in its
files were counted and agree with the store, by table and operation. Retention deletes no
transaction beyond the mark. ``replview.features.archive.job`` writes the files.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from replview.store import connecting, instance_settings
from replview.store.django_session import rows
from replview.store.models import ArchiveMark, Slot, SlotEvent, SlotIncarnation, Source


def home_of(mark: ArchiveMark, slot: Slot) -> str:
    """Return the name of the source's folder in the archive."""
    return mark.home or slot.source.name


def new_home(incarnation: SlotIncarnation, slot: Slot, target: str) -> str:
    """Return a folder name for a new mark that no other source's slot of this name uses."""
    others = ArchiveMark.objects.filter(
        target=target, incarnation__number=incarnation.number, incarnation__slot__name=slot.name
    ).exclude(incarnation__slot__source=slot.source)
    marks = others.select_related("incarnation__slot__source")
    taken = {home_of(mark, mark.incarnation.slot) for mark in marks}
    name = slot.source.name
    return f"{name}-{slot.source.pk}" if name in taken else name


def keep_homes(source: Source, former: str) -> None:
    """Store the former name in the marks of a renamed source, whose files do not move."""
    marks = ArchiveMark.objects.filter(incarnation__slot__source=source, home="")
    marks.update(home=former)


#: Most changes (about) and transactions of a slice.
MOST_CHANGES = 2_000_000
MOST_TRANSACTIONS = 2_000_000
#: Seconds between two checks of an incarnation after a problem, or while too little is due.
LOOK_AGAIN_SECONDS = 60.0
DEFAULTS = {"after_hours": 24.0, "every_seconds": 21_600.0}
#: Maximum of each numeric setting; the minimum is 0.
MOST = {"after_hours": 24 * 366, "every_seconds": 86_400}

_STORED_AT = "coalesce(t.stored_at, t.received_at)"
_FIRST = f"""
    SELECT {_STORED_AT} FROM transaction t
    WHERE t.incarnation_id = %s AND t.commit_seq > %s ORDER BY t.commit_seq LIMIT 1
"""  # noqa: S608 (of constants)
# Stop before the first transaction that is too recent, of another day, or too much for a slice.
_DUE = f"""
    SELECT max(commit_seq), sum(changes)::bigint, count(*) FROM (
        SELECT commit_seq, changes, sum(changes) OVER earlier - changes AS before,
               max(at) OVER earlier AS latest
        FROM (SELECT t.commit_seq, {_STORED_AT} AS at,
                     t.inserts + t.updates + t.deletes + t.truncates + t.messages AS changes
              FROM transaction t WHERE t.incarnation_id = %(incarnation)s
                AND t.commit_seq > %(after)s
              ORDER BY t.commit_seq LIMIT %(transactions)s) AS waiting
        WINDOW earlier AS (ORDER BY commit_seq ROWS UNBOUNDED PRECEDING)
    ) AS placed WHERE latest < %(until)s AND before < %(changes)s
"""  # noqa: S608 (of constants)
_HISTORY = "'committed', 'snapshot', 'message'"
_ENDS = f"""
    SELECT count(*) FILTER (WHERE t.state IN ({_HISTORY})), count(*), min(t.id), max(t.id)
    FROM transaction t
    WHERE t.incarnation_id = %s AND t.commit_seq > %s AND t.commit_seq <= %s
"""  # noqa: S608 (of constants)
_COUNTS = f"""
    SELECT r.oid, c.op::text, count(*)
    FROM transaction t JOIN change c ON c.transaction_id = t.id
    LEFT JOIN relation r ON r.id = c.relation_id
    WHERE t.incarnation_id = %s AND t.commit_seq > %s AND t.commit_seq <= %s
      AND t.state IN ({_HISTORY}) AND c.transaction_id BETWEEN %s AND %s
      AND NOT EXISTS (SELECT FROM aborted_subtransaction a
                      WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
    GROUP BY 1, 2
"""  # noqa: S608 (of constants)
_PLACE = """
    SELECT t.commit_seq, t.commit_lsn::text, t.commit_time FROM transaction t
    WHERE t.incarnation_id = %s AND t.commit_seq > %s AND t.commit_seq <= %s
      AND t.state IN ('committed', 'skipped') AND t.commit_lsn IS NOT NULL
    ORDER BY t.commit_seq {} LIMIT 1
"""
#: Name of an operation in the files, by letter; a baseline's rows are inserts there.
_OPERATIONS = {"I": "insert", "S": "insert", "U": "update", "D": "delete", "T": "truncate",
               "M": "message"}  # fmt: skip
#: Serialises archiving among workers.
_LOCK = 0x7265706C61726368


def alone() -> AbstractContextManager[bool]:
    """Return a context that yields whether no other process archives from this store now."""
    return connecting.alone(_LOCK)


@dataclass(frozen=True, slots=True)
class Choice:
    """The archive's settings."""

    #: Folder or URL; None without an archive.
    target: str | None
    after_hours: float
    every_seconds: float
    asked_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStep:
    """The slice of an incarnation to archive next: ``after_seq < commit_seq <= through_seq``."""

    mark_id: int
    target: str
    source: str
    slot: str
    incarnation_id: int
    number: int
    after_seq: int
    through_seq: int


@dataclass(frozen=True, slots=True)
class SliceCounts:
    """The numbers of transactions and changes in a slice."""

    transactions: int
    #: Changes by table OID and operation; messages have no table, truncates may have none.
    changes: Mapping[tuple[int | None, str], int]
    #: True when some of the slice's transactions were deleted.
    deleted: bool = False

    @property
    def total(self) -> int:
        """Return the number of changes."""
        return sum(self.changes.values())


def chosen() -> Choice:
    """Return the archive that is chosen now; it is read from the store each time."""
    target = instance_settings.read("archive.target", None)
    asked = instance_settings.read("archive.asked_at", None)
    after_hours, every_seconds = (
        instance_settings.read_number(f"archive.{name}", default, least=0, most=MOST[name])
        for name, default in DEFAULTS.items()
    )
    return Choice(
        target if isinstance(target, str) and target else None,
        after_hours,
        every_seconds,
        None if asked is None else parse_datetime(str(asked)),
    )


def next_step() -> ArchiveStep | None:
    """Return the slice that is due, older incarnations first; None if none is."""
    choice, now = chosen(), timezone.now()
    if choice.target is None:
        return None
    incarnations = SlotIncarnation.objects.exclude(slot__desired=Slot.Desired.REMOVING)
    marks = {m.incarnation_id: m for m in ArchiveMark.objects.filter(target=choice.target)}
    for incarnation in incarnations.filter(slot__temporary=False).order_by("slot_id", "number"):
        mark = marks.get(incarnation.pk)
        if (mark.through_seq if mark else 0) >= incarnation.commit_seq:
            continue
        if (
            mark
            and mark.checked_at
            and (now - mark.checked_at).total_seconds() < LOOK_AGAIN_SECONDS
        ):
            continue
        if step := _due(incarnation, mark, choice, now):
            return step
    return None


def _due(
    incarnation: SlotIncarnation, mark: ArchiveMark | None, choice: Choice, now: dt.datetime
) -> ArchiveStep | None:
    after = mark.through_seq if mark else 0
    oldest = rows(_FIRST, [incarnation.pk, after])
    cutoff = now - dt.timedelta(hours=choice.after_hours)
    asked = choice.asked_at is not None and choice.asked_at > cutoff
    cutoff = max(cutoff, choice.asked_at or cutoff)
    if not oldest or oldest[0][0] > cutoff:
        return None
    assert choice.target is not None
    slot = Slot.objects.select_related("source").get(pk=incarnation.slot_id)
    if mark is None:
        home = new_home(incarnation, slot, choice.target)
        mark, _ = ArchiveMark.objects.get_or_create(
            incarnation=incarnation, target=choice.target, defaults={"home": home}
        )
    following = oldest[0][0].astimezone(dt.UTC).date() + dt.timedelta(days=1)
    day_ends = dt.datetime.combine(following, dt.time(), tzinfo=dt.UTC)
    wanted = {
        "incarnation": incarnation.pk, "after": after, "transactions": MOST_TRANSACTIONS,
        "changes": MOST_CHANGES, "until": min(cutoff, day_ends),
    }  # fmt: skip
    [(through, changes, transactions)] = rows(_DUE, wanted)
    full = (changes or 0) >= MOST_CHANGES or (transactions or 0) >= MOST_TRANSACTIONS
    moved = mark.moved_at
    early = not asked and moved is not None and (now - moved).total_seconds() < choice.every_seconds
    if through is None or (early and not full and cutoff < day_ends):
        ArchiveMark.objects.filter(pk=mark.pk).update(checked_at=now)
        return None
    return ArchiveStep(
        mark_id=mark.pk, target=choice.target, source=home_of(mark, slot), slot=slot.name,
        incarnation_id=incarnation.pk, number=incarnation.number, after_seq=after,
        through_seq=int(through),
    )  # fmt: skip


def counts_of(incarnation_id: int, after_seq: int, through_seq: int) -> SliceCounts:
    """Count the rows of a slice in the store."""
    ends = [incarnation_id, after_seq, through_seq]
    [(transactions, stored, low, high)] = rows(_ENDS, ends)
    deleted = stored < through_seq - after_seq
    if low is None:
        return SliceCounts(0, {}, deleted)
    found: Counter[tuple[int | None, str]] = Counter()
    for oid, op, count in rows(_COUNTS, [*ends, low, high]):
        found[oid, _OPERATIONS[op]] += count
    return SliceCounts(transactions, found, deleted)


def difference(stored: SliceCounts, archived: SliceCounts) -> str:
    """Return in a sentence how the archive differs from the store; empty if it does not."""
    compared = [("transactions", stored.transactions, archived.transactions)]
    for key in sorted({*stored.changes, *archived.changes}, key=str):
        of_table = "" if key[0] is None else f" of the table with oid {key[0]}"
        here, there = stored.changes.get(key, 0), archived.changes.get(key, 0)
        compared.append((f"{key[1]}s{of_table}", here, there))
    for name, here, there in compared:
        # Files may still have days that the store has deleted.
        if there < here or (there > here and not stored.deleted):
            return f"the archive's files have {there:,} {name}, but the store has {here:,}"
    return ""


@transaction.atomic
def move(step: ArchiveStep, through_seq: int, counts: SliceCounts, size_bytes: int) -> bool:
    """Move the mark over a slice that was archived and counted; return False if it had moved."""
    mark = ArchiveMark.objects.select_for_update().get(pk=step.mark_id)
    if mark.through_seq != step.after_seq:
        return False
    ends = [step.incarnation_id, step.after_seq, through_seq]
    first, last = rows(_PLACE.format(""), ends), rows(_PLACE.format("DESC"), ends)
    if mark.since_seq is None and first:
        mark.since_seq, mark.since_lsn, mark.since_time = first[0]
    if last:
        _, mark.through_lsn, mark.through_time = last[0]
    mark.through_seq = through_seq
    mark.transactions += counts.transactions
    mark.changes += counts.total
    mark.size_bytes += size_bytes
    mark.moved_at, mark.checked_at = timezone.now(), None
    if mark.problem:
        log(step, "Archiving continues.")
    mark.problem = mark.remedy = ""
    mark.save()
    return True


def marks() -> list[ArchiveMark]:
    """Return the marks of incarnations that the current archive has something of."""
    found = ArchiveMark.objects.filter(target=chosen().target or "", through_seq__gt=0)
    kept = found.exclude(incarnation__slot__desired=Slot.Desired.REMOVING)
    return [*kept.select_related("incarnation__slot__source").order_by("pk")]


def grow(mark: ArchiveMark, size_bytes: int) -> None:
    """Add to the size of the mark's files; the number may be negative."""
    ArchiveMark.objects.filter(pk=mark.pk).update(size_bytes=F("size_bytes") + size_bytes)


@transaction.atomic
def fail(step: ArchiveStep, problem: str, remedy: str) -> None:
    """Store a problem in the mark, and log it once."""
    mark = ArchiveMark.objects.select_for_update().get(pk=step.mark_id)
    if mark.problem != problem:
        log(step, f"Archiving failed: {problem}.", remedy=remedy)
    mark.checked_at, mark.problem, mark.remedy = timezone.now(), problem, remedy
    mark.save()


def log(of: ArchiveStep | ArchiveMark, message: str, **detail: str) -> None:
    """Add a line about the archive to the slot's log."""
    incarnation = SlotIncarnation.objects.get(pk=of.incarnation_id)
    after = of.after_seq if isinstance(of, ArchiveStep) else of.through_seq
    SlotEvent.objects.create(
        slot_id=incarnation.slot_id, incarnation=incarnation, kind="archive", message=message,
        after_commit_seq=after, detail=detail,
    )  # fmt: skip
