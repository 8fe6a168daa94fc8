"""Our publications as the source has them: which of them are ours, and how to make them again."""

from collections.abc import Iterable

from psycopg import sql

from replview.catalog.connections import Connection
from replview.catalog.plan.steps import Step
from replview.catalog.publication_members import items_of, read_members
from replview.catalog.publications import Publication, read_publications
from replview.store.models import Slot, SlotEvent

#: Lines of the log that tell of publications replview made.
_MAKING = ["created", "adopted", "tables"]


def made_by_us(slot: Slot) -> list[str]:
    """The publications replview made for the slot, the first made first; only these are ever
    changed or dropped.
    """
    found: dict[str, None] = {}
    for event in SlotEvent.objects.filter(slot=slot, kind__in=_MAKING).order_by("pk"):
        found |= dict.fromkeys(event.detail.get("made_publications", []))
    return list(found)


def read_definitions(connection: Connection, names: Iterable[str]) -> list[dict[str, str]]:
    """``[{"name", "create"}]``: the statement that makes each of these again, of those that are
    there.
    """
    wanted = set(names)
    return [
        {"name": publication.name, "create": definition(connection, publication)}
        for publication in read_publications(connection)
        if publication.name in wanted
    ]


def definition(connection: Connection, publication: Publication) -> str:
    """``CREATE PUBLICATION …`` as the publication is now."""
    name = sql.Identifier(publication.name)
    if publication.all_tables:
        statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(name)
    else:
        members = read_members(connection, publication.name)
        statement = sql.SQL("CREATE PUBLICATION {}").format(name)
        if members:
            statement += sql.SQL(" FOR {}").format(items_of(members))
    done = {
        "insert": publication.inserts,
        "update": publication.updates,
        "delete": publication.deletes,
        "truncate": publication.truncates,
    }
    options = []
    if not all(done.values()):
        words = ", ".join(word for word, published in done.items() if published)
        options.append(sql.SQL("publish = {}").format(sql.Literal(words)))
    if publication.via_root:
        options.append(sql.SQL("publish_via_partition_root = true"))
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    return statement.as_string(None)


def remade_steps(connection: Connection, slot: Slot) -> list[Step]:
    """Those of the slot's publications that were dropped with it, as steps that make them again."""
    dropped = SlotEvent.objects.filter(slot=slot, detail__has_key="dropped_publications")
    event = dropped.order_by("-pk").first()
    if event is None:
        return []
    there = {publication.name for publication in read_publications(connection)}
    return [
        _step(told["name"], told["create"])
        for told in event.detail["dropped_publications"]
        if told["name"] in slot.publications and told["name"] not in there
    ]


def _step(name: str, create: str) -> Step:
    # Composed by us when the publication was dropped, and kept in the store since.
    statement = sql.Composed([sql.SQL(create)])  # type: ignore[arg-type]
    return Step(
        statement=statement,
        undo=sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)),
        needs="CREATE on the database, and ownership of the tables",
        costs="a moment's lock on each table that lets reads and writes pass "
        "(SHARE UPDATE EXCLUSIVE: it waits for VACUUM, ANALYZE and ALTER TABLE)",
        kind="publication",
        name=name,
    )
