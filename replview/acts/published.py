"""The publications of a source at this moment: whose they are, and what they publish."""

from dataclasses import dataclass

from replview.acts.definitions import made_by_us
from replview.catalog.connections import reading
from replview.catalog.publications import Publication, read_publications
from replview.store.dsn import full_conninfo
from replview.store.models import Slot, Source

_DEADLINE_SECONDS = 6.0
#: More names than this are not told.
_NAMED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationView:
    """One of them."""

    publication: Publication
    #: replview made it, for one of its slots.
    ours: bool
    #: Slots of ours that read it.
    read_by: tuple[str, ...]

    @property
    def operations(self) -> str:
        """Of I, U, D, T."""
        one = self.publication
        told = ((one.inserts, "I"), (one.updates, "U"), (one.deletes, "D"), (one.truncates, "T"))
        return "".join(letter for published, letter in told if published)

    @property
    def named(self) -> list[str]:
        """Some of its tables."""
        return [f"{table.schema}.{table.name}" for table in self.publication.tables[:_NAMED]]

    @property
    def more(self) -> int:
        """How many further tables there are."""
        return max(len(self.publication.tables) - _NAMED, 0)


def publications_of(source: Source) -> list[PublicationView]:
    """Ours first. Raises ``SourceTrouble`` and what a DSN may raise."""
    with reading(full_conninfo(source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        found = read_publications(connection)
    slots = Slot.objects.filter(source=source).exclude(desired=Slot.Desired.REMOVING)
    made = {name for slot in slots for name in made_by_us(slot)}
    views = [
        PublicationView(
            publication=publication,
            ours=publication.name in made,
            read_by=tuple(slot.name for slot in slots if publication.name in slot.publications),
        )
        for publication in found
    ]
    return sorted(views, key=lambda view: (not view.ours, not view.read_by, view.publication.name))
