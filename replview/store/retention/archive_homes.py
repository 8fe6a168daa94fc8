"""Under which source's name a slot's life lies in an archive: the one it had when that began.

Files are never moved, so a source's later name changes nothing there; and a source that takes over
a former name of another writes elsewhere.
"""

from replview.store.models import ArchiveMark, Slot, SlotIncarnation, Source


def home_of(mark: ArchiveMark, slot: Slot) -> str:
    """The source's name in the folders of a life."""
    return mark.home or slot.source.name


def new_home(life: SlotIncarnation, slot: Slot, target: str) -> str:
    """For a life of which nothing is there yet: no other source's life of this slot's name and
    number may lie there.
    """
    others = ArchiveMark.objects.filter(
        target=target, incarnation__number=life.number, incarnation__slot__name=slot.name
    ).exclude(incarnation__slot__source=slot.source)
    taken = {
        home_of(mark, mark.incarnation.slot)
        for mark in others.select_related("incarnation__slot__source")
    }
    name = slot.source.name
    return f"{name}-{slot.source.pk}" if name in taken else name


def keep_homes(source: Source, former: str) -> None:
    """The source has another name now: what it archived stays where it is."""
    marks = ArchiveMark.objects.filter(incarnation__slot__source=source, home="")
    marks.update(home=former)
