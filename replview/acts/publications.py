"""Read the publications of a source: whose they are, what they publish, and their definitions."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet
from psycopg import sql

from replview.acts.publication_lapses import note_lapses
from replview.catalog.connections import Connection, reading
from replview.catalog.plan.plan import Statement
from replview.catalog.plan.publications import TABLES_COST, drop_publication
from replview.catalog.problems import SourceProblem
from replview.catalog.publications import Publication, items_of, read_members, read_publications
from replview.catalog.published import publication_facts, published_by
from replview.catalog.published_state import CatalogMark, PublishedState, read_published_state
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.looks import latest_look, note_same_look, store_publication_look
from replview.store.models import Slot, SlotEvent, Source

#: The Celery task that looks at the publications of one slot's source, by the slot's id.
LOOK_AT_PUBLICATIONS_OF = "replview.look_at_publications_of"
#: Seconds after which a source without an answer is given up.
DEADLINE_SECONDS = 10.0
#: Kinds of log lines about publications that replview made.
_KINDS_WITH_PUBLICATIONS = ["created", "adopted", "tables"]
_DEADLINE_SECONDS = 6.0
#: Most names to list.
_NAMES_SHOWN = 12


def remaining_slots(source: Source) -> QuerySet[Slot]:
    """Return the slots of a source that are not being removed."""
    return Slot.objects.filter(source=source).exclude(desired=Slot.Desired.REMOVING)


@dataclass(frozen=True, slots=True)
class _LastLook:
    """The last look of this process at a source."""

    mark: CatalogMark
    conninfo: str
    #: The slots whose looks were stored, with their publications.
    slots: dict[int, tuple[str, ...]]


#: The last look at each source, by its id.
_last_looks: dict[int, _LastLook] = {}


def look_at_publications(source: Source) -> int:
    """Look once for all slots of a source; return how many looks at publications are new.

    A source that cannot be reached is skipped: ``sample`` reports it. See *How altered tables and
    publications are noticed* in docs/architecture.md.
    """
    slots = list(remaining_slots(source).select_related("incarnation"))
    if not slots:
        return 0
    last_look = _last_looks.pop(source.pk, None)
    publications_by_slot = {slot.pk: tuple(slot.publications) for slot in slots}
    try:
        conninfo = full_conninfo(source)
        if last_look is not None and (last_look.conninfo, last_look.slots) != (
            conninfo,
            publications_by_slot,
        ):
            last_look = None
        with reading(conninfo, deadline_seconds=DEADLINE_SECONDS) as connection:
            state = read_published_state(connection, last_look.mark if last_look else None)
            version = connection.info.server_version
    except (SourceProblem, *UNUSABLE):
        return 0
    if state is None:
        return 0
    # Take the time after the read: a look must not claim to be earlier than it was.
    now = dt.datetime.now(dt.UTC)
    readers = [slot for slot in slots if slot.plugin == "pgoutput"]
    new_looks = sum(_store_look(slot, state, version, now) for slot in readers)
    if not state.unchanged:
        Source.objects.filter(pk=source.pk).update(catalog_mark=state.mark.fingerprint)
    _last_looks[source.pk] = _LastLook(state.mark, conninfo, publications_by_slot)
    return new_looks


def _store_look(slot: Slot, state: PublishedState, server_version: int, now: dt.datetime) -> bool:
    """Store one slot's look and the lapses that it shows; return whether it differs."""
    position = {
        "first_lsn": int(state.place.after),
        "last_lsn": int(state.place.before),
        "next_xid": state.place.next_xid,
    }
    if state.unchanged:
        note_same_look(slot, now, **position)
        return False
    chosen = [p for p in state.publications if p.name in slot.publications]
    published = published_by(chosen, state.tables)
    facts = publication_facts(chosen, published, state.tables, server_version, state.paths)
    with transaction.atomic():
        former = latest_look(slot)
        look = store_publication_look(slot, facts, now, **position)
        if look is not None:
            Slot.objects.filter(pk=slot.pk).update(published_tables=len(published))
            assert state.paths is not None
            note_lapses(slot, former, look, state.paths.exists)
    return look is not None


def made_by_us(slot: Slot) -> list[str]:
    """Return the publications that replview made for the slot, oldest first.

    Only these are ever changed or dropped.
    """
    names: dict[str, None] = {}
    for event in SlotEvent.objects.filter(slot=slot, kind__in=_KINDS_WITH_PUBLICATIONS).order_by(
        "pk"
    ):
        names |= dict.fromkeys(event.detail.get("made_publications", []))
    return list(names)


def read_definitions(connection: Connection, names: Iterable[str]) -> list[dict[str, str]]:
    """Return ``[{"name", "create"}]`` for the existing publications among ``names``.

    ``create`` is the statement that makes the publication again.
    """
    wanted_names = set(names)
    return [
        {"name": publication.name, "create": definition(connection, publication)}
        for publication in read_publications(connection)
        if publication.name in wanted_names
    ]


def definition(connection: Connection, publication: Publication) -> str:
    """Return the ``CREATE PUBLICATION …`` of the publication's current definition."""
    statement = sql.SQL("CREATE PUBLICATION {}").format(sql.Identifier(publication.name))
    if publication.all_tables:
        statement += sql.SQL(" FOR ALL TABLES")
    elif members := read_members(connection, publication.name):
        statement += sql.SQL(" FOR {}").format(items_of(members))
    published_operations = {
        "insert": publication.inserts,
        "update": publication.updates,
        "delete": publication.deletes,
        "truncate": publication.truncates,
    }
    options: list[sql.Composable] = []
    if not all(published_operations.values()):
        names = ", ".join(
            operation for operation, published in published_operations.items() if published
        )
        options.append(sql.SQL("publish = {}").format(sql.Literal(names)))
    if publication.via_root:
        options.append(sql.SQL("publish_via_partition_root = true"))
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    return statement.as_string(None)


def remade_steps(connection: Connection, slot: Slot) -> list[Statement]:
    """Return the steps that recreate the publications dropped with the slot."""
    dropped = SlotEvent.objects.filter(slot=slot, detail__has_key="dropped_publications")
    event = dropped.order_by("-pk").first()
    if event is None:
        return []
    existing_names = {publication.name for publication in read_publications(connection)}
    return [
        Statement(
            # replview composed this text when it dropped the publication, and kept it in the store.
            sql=dropped_publication["create"],
            undo=drop_publication(dropped_publication["name"]),
            needs="CREATE on the database, and ownership of the tables",
            costs=TABLES_COST,
            kind="publication",
            name=dropped_publication["name"],
        )
        for dropped_publication in event.detail["dropped_publications"]
        if dropped_publication["name"] in slot.publications
        and dropped_publication["name"] not in existing_names
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationView:
    """A publication with its readers among replview's slots."""

    publication: Publication
    #: True when replview made it, for one of its slots.
    ours: bool
    #: Names of replview's slots that read it.
    read_by: tuple[str, ...]

    @property
    def operations(self) -> str:
        """Return the letters of the published operations, of I, U, D and T."""
        return self.publication.operations

    @property
    def named(self) -> list[str]:
        """Return the first tables as ``schema.table``."""
        return [f"{table.schema}.{table.name}" for table in self.publication.tables[:_NAMES_SHOWN]]

    @property
    def more(self) -> int:
        """Return the number of tables that ``named`` leaves out."""
        return max(len(self.publication.tables) - _NAMES_SHOWN, 0)


def publications_of(source: Source) -> list[PublicationView]:
    """Read a source's publications, ours first. Raises ``SourceProblem`` and a DSN's errors."""
    with reading(full_conninfo(source), deadline_seconds=_DEADLINE_SECONDS) as connection:
        publications = read_publications(connection)
    slots = remaining_slots(source)
    made_names = {name for slot in slots for name in made_by_us(slot)}
    views = [
        PublicationView(
            publication=publication,
            ours=publication.name in made_names,
            read_by=tuple(slot.name for slot in slots if publication.name in slot.publications),
        )
        for publication in publications
    ]
    return sorted(views, key=lambda view: (not view.ours, not view.read_by, view.publication.name))
