"""Find what is archived: what may be deleted from the store, and where it is found then."""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection
from django.utils import timezone

from replview.store import instance_settings
from replview.store.django_session import rows
from replview.store.models import ArchivedRun, ArchiveMark, SlotIncarnation
from replview.store.retention import archive
from replview.store.retention.archive import home_of
from replview.store.write.access_record import Action, note

# The first incarnation with transactions that are not archived; slots being removed do not count.
_MISSING = """
    SELECT o.name || '/' || s.name, i.number, m.through_seq, m.problem, m.through_time
    FROM slot_incarnation i JOIN slot s ON s.id = i.slot_id JOIN source o ON o.id = s.source_id
    LEFT JOIN archive_mark m ON m.incarnation_id = i.id AND m.target = %(target)s
    WHERE s.desired <> 'removing' AND NOT s.temporary AND i.commit_seq > coalesce(m.through_seq, 0)
      AND (%(slots)s::bigint[] IS NULL OR s.id = ANY (%(slots)s))
      AND EXISTS (SELECT FROM transaction t
                  WHERE t.id >= %(low)s AND t.id < %(high)s AND t.incarnation_id = i.id
                    AND t.commit_seq > coalesce(m.through_seq, 0))
    ORDER BY i.id LIMIT 1
"""
# The time of each incarnation's oldest stored transaction.
_STORED_SINCE = """
    SELECT i.id, t.at FROM slot_incarnation i CROSS JOIN LATERAL (
        SELECT coalesce(t.commit_time, t.stored_at, t.received_at) AS at FROM transaction t
        WHERE t.incarnation_id = i.id AND t.commit_seq > 0 ORDER BY t.commit_seq LIMIT 1
    ) AS t
"""
# Islands of consecutive identifiers that have consecutive places.
_REMEMBER = """
    INSERT INTO archived_run (first_id, last_id, incarnation_id, first_seq)
    SELECT min(id), max(id), incarnation_id, min(commit_seq) FROM (
        SELECT t.id, t.incarnation_id, t.commit_seq, t.id - t.commit_seq AS apart,
               t.id - row_number() OVER (PARTITION BY t.incarnation_id, t.id - t.commit_seq
                                         ORDER BY t.id) AS island
        FROM transaction t JOIN slot_incarnation i ON i.id = t.incarnation_id
        WHERE t.id >= %(low)s AND t.id < %(high)s AND t.commit_seq IS NOT NULL
          AND (%(incarnations)s::bigint[] IS NULL OR t.incarnation_id = ANY (%(incarnations)s))
    ) AS placed GROUP BY incarnation_id, apart, island
    ON CONFLICT (first_id) DO NOTHING
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    """The state of one incarnation in the archive."""

    slot: str
    #: Number of the incarnation.
    number: int
    mark: ArchiveMark | None
    #: Number of transactions that are not archived yet.
    waiting: int
    #: Time of the oldest stored transaction; None if the store has none.
    stored_since: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCommit:
    """A transaction that only the archive has."""

    target: str
    source: str
    slot: str
    incarnation: SlotIncarnation
    commit_seq: int


def why_wanted(day: dt.date, low: int, high: int, *, slots: Collection[int] | None = None) -> str:
    """Return why a day (of these slots, or of all) must stay for the archive; else empty."""
    target = archive.chosen().target
    listed = None if slots is None else sorted(slots)
    wanted = {"target": target, "low": low, "high": high, "slots": listed}
    found = rows(_MISSING, wanted) if target is not None else []
    if not found:
        return ""
    slot, number, through, problem, at = found[0]
    name = slot if number == 1 else f"{slot} (incarnation {number})"
    reached = f"archived up to commit_seq {through}" if through else "not archived at all"
    if at is not None:
        reached = f"archived up to {at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
    why = f": {problem}" if problem else ""
    return f"{day} is not in the archive yet: {name} is {reached}{why}."


def remember(low: int, high: int, incarnations: Sequence[int] | None = None) -> None:
    """Store the places of transactions in the archive before they are deleted."""
    if archive.chosen().target is not None:
        listed = None if incarnations is None else list(incarnations)
        with connection.cursor() as cursor:
            cursor.execute(_REMEMBER, {"low": low, "high": high, "incarnations": listed})


def place_of(identifier: int) -> ArchivedCommit | None:
    """Return where the archive has a deleted transaction; None if it has not."""
    run = ArchivedRun.objects.filter(first_id__lte=identifier).order_by("-first_id").first()
    if run is None or run.last_id < identifier:
        return None
    return place_at(run.incarnation_id, run.first_seq + identifier - run.first_id)


def place_at(incarnation_id: int, commit_seq: int) -> ArchivedCommit | None:
    """Return an archive with this place, preferring complete archives and the current one."""
    target = archive.chosen().target
    marks = ArchiveMark.objects.filter(incarnation_id=incarnation_id, through_seq__gte=commit_seq)
    known = sorted(
        marks.order_by("-moved_at"),
        key=lambda m: (m.since_seq is None or m.since_seq > commit_seq, m.target != target),
    )
    if not known:
        return None
    incarnation = SlotIncarnation.objects.select_related("slot__source").get(pk=incarnation_id)
    return ArchivedCommit(
        target=known[0].target, source=home_of(known[0], incarnation.slot),
        slot=incarnation.slot.name, incarnation=incarnation, commit_seq=commit_seq,
    )  # fmt: skip


def standings() -> list[ArchiveState]:
    """Return the state of every incarnation that has something to archive."""
    target = archive.chosen().target
    marks = {m.incarnation_id: m for m in ArchiveMark.objects.filter(target=target or "")}
    kept = SlotIncarnation.objects.select_related("slot__source").filter(slot__temporary=False)
    since = dict(rows(_STORED_SINCE, []))
    return [
        ArchiveState(
            slot=str(each.slot), number=each.number, mark=(mark := marks.get(each.pk)),
            waiting=each.commit_seq - (mark.through_seq if mark else 0),
            stored_since=since.get(each.pk),
        )
        for each in kept.order_by("slot__source__name", "slot__name", "number")
        if each.commit_seq
    ]  # fmt: skip


def choose_target(target: str, by: str) -> None:
    """Set the archive's target, to which all history is written from its beginning."""
    if archive.chosen().target != target:
        instance_settings.write("archive.target", target, by)
        note(Action.CHANGED_SETTINGS, subject=f"the archive: {target}")


def choose_number(name: str, value: float, by: str) -> None:
    """Set one of ``archive.MOST``. Raises ``ValueError`` for a value out of range."""
    if not 0 <= value <= archive.MOST[name]:
        raise ValueError(f"it must be between 0 and {archive.MOST[name]}")
    if getattr(archive.chosen(), name) != value:
        instance_settings.write(f"archive.{name}", value, by)
        note(Action.CHANGED_SETTINGS, subject=f"the archive: {name} {value:g}")


def switch_off(by: str) -> None:
    """Switch the archive off; its files stay, and days are deleted without it."""
    instance_settings.write("archive.target", None, by)
    note(Action.CHANGED_SETTINGS, subject="the archive: off")


def ask_now(by: str) -> None:
    """Request that all stored history be archived now, and retry what failed."""
    instance_settings.write("archive.asked_at", timezone.now().isoformat(), by)
    ArchiveMark.objects.filter(target=archive.chosen().target).update(checked_at=None)
    note(Action.CHANGED_SETTINGS, subject="the archive: all that is stored, now")


def former_target() -> str:
    """Return the target that was used last; empty if there was none."""
    marks = ArchiveMark.objects.filter(through_seq__gt=0).order_by("-moved_at")
    return marks.values_list("target", flat=True).first() or ""
