"""Choosing the archive: where history goes and when, whoever says so."""

from django.utils import timezone

from replview.store import instance_settings
from replview.store.models import ArchiveMark
from replview.store.retention import archive
from replview.store.write.access_record import Action, note

#: What may be chosen besides the target: from 0 up to so much.
MOST = {"after_hours": 24 * 366, "every_seconds": 86_400}


def choose_target(target: str, by: str) -> None:
    """From now on history goes there, from its beginning on; it was written to."""
    if archive.chosen().target != target:
        instance_settings.write("archive.target", target, by)
        note(Action.CHANGED_SETTINGS, subject=f"the archive: {target}")


def choose_number(name: str, value: float, by: str) -> None:
    """One of ``MOST``. Raises ``ValueError`` where that is too little or too much."""
    if not 0 <= value <= MOST[name]:
        raise ValueError(f"between 0 and {MOST[name]}")
    if getattr(archive.chosen(), name) != value:
        instance_settings.write(f"archive.{name}", value, by)
        note(Action.CHANGED_SETTINGS, subject=f"the archive: {name} {value:g}")


def switch_off(by: str) -> None:
    """Nothing more goes there, and days are deleted without waiting; what is there stays."""
    instance_settings.write("archive.target", None, by)
    note(Action.CHANGED_SETTINGS, subject="the archive: off")


def ask_now(by: str) -> None:
    """All that is stored goes there as soon as a worker takes it up, what failed before too."""
    instance_settings.write("archive.asked_at", timezone.now().isoformat(), by)
    ArchiveMark.objects.filter(target=archive.chosen().target).update(checked_at=None)
    note(Action.CHANGED_SETTINGS, subject="the archive: all that is stored, now")


def former_target() -> str:
    """Where history went last, before it was switched off; empty: nowhere."""
    marks = ArchiveMark.objects.filter(through_seq__gt=0).order_by("-moved_at")
    return marks.values_list("target", flat=True).first() or ""
