"""Explain what a table's replica identity means for the record: text, warnings and remedies."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replview.catalog.naming import quoted

_NO_HISTORY = "no key is known, so a row has no history of its own"
_NOT_IDENTIFIED = "its rows cannot be identified"
_FAILS = "an UPDATE or DELETE of it fails on the source as long as that is published"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityWarning:
    """A limit or a cost that the replica identity brings."""

    #: ``look`` for something that prevents an audit, ``note`` for information.
    level: str
    word: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityWords:
    """The explanation of a table's replica identity."""

    #: The identity in words, such as ``DEFAULT, primary key (id)``.
    now: str
    #: The part of the old row that the stream has.
    old_row: str
    #: Level of the page's headline.
    level: str
    cause: str
    next: str = ""
    warnings: tuple[IdentityWarning, ...] = ()
    #: Description and SQL of statements to copy; replview never runs them.
    statements: tuple[tuple[str, str], ...] = ()


_NO_ROW_KEY = IdentityWarning(level="look", word="no row key", why=_NO_HISTORY)


def identity_words(
    schema: str,
    table: str,
    replica_identity: str,
    key_columns: Sequence[str],
    ruled_columns: Collection[str] = (),
) -> IdentityWords:
    """Explain a replica identity. ``ruled_columns`` are columns that column rules drop or mask."""
    name = quoted(schema, table)
    key = ", ".join(key_columns)
    hidden = [column for column in key_columns if column in ruled_columns]
    full = (("Send whole old rows", f"ALTER TABLE {name} REPLICA IDENTITY FULL;"),)
    add_key = (("Give it a key", f"ALTER TABLE {name} ADD PRIMARY KEY (column, …);"),)
    match replica_identity:
        case "NOTHING":
            words = _nothing_words(name, full)
        case "FULL":
            words = _full_words(name, key, add_key)
        case "INDEX":
            words = _index_words(key, full)
        case "DEFAULT":
            words = _default_words(key, full, add_key)
        case _:
            words = _unknown_words(key)
    if hidden:
        names = ", ".join(hidden)
        why = f"a column rule excludes key column {names}: rows have no history"
        warning = IdentityWarning(level="look", word="key not kept", why=why)
        words = replace(words, level="look", warnings=(*words.warnings, warning))
    return words


def _nothing_words(name: str, full: tuple[tuple[str, str], ...]) -> IdentityWords:
    return IdentityWords(
        now="NOTHING",
        old_row="none: only inserts and truncates can be received",
        level="look",
        cause=f"Replica identity NOTHING: {_FAILS}, and rows cannot be identified.",
        next="use its primary key, or FULL.",
        warnings=(
            IdentityWarning(level="look", word="NOTHING", why=f"{_FAILS}, and {_NOT_IDENTIFIED}"),
        ),
        statements=(
            ("Use its primary key", f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"),
            *full,
        ),
    )


def _full_words(name: str, key: str, add_key: tuple[tuple[str, str], ...]) -> IdentityWords:
    why = "every update and delete writes the whole old row to WAL"
    cost = IdentityWarning(level="note", word="FULL", why=why)
    if key:
        return IdentityWords(
            now=f"FULL, rows known by primary key ({key})",
            old_row="whole, with every update and delete",
            level="ok",
            cause="Replica identity FULL sends the whole old row with every update and delete, "
            "which costs WAL.",
            warnings=(cost,),
            statements=(("Send only keys again", f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"),),
        )
    return IdentityWords(
        now="FULL, without a primary key",
        old_row="whole, with every update and delete",
        level="look",
        cause="Replica identity FULL sends whole old rows, but without a primary key rows cannot "
        "be told apart: there is no row history.",
        next="give it a primary key.",
        warnings=(cost, _NO_ROW_KEY),
        statements=add_key,
    )


def _index_words(key: str, full: tuple[tuple[str, str], ...]) -> IdentityWords:
    return IdentityWords(
        now=f"INDEX on ({key})" if key else "INDEX, which is gone",
        old_row="only the index's columns, when one of them changes or the row is deleted",
        level="ok" if key else "look",
        cause="Replica identity INDEX sends only the index's columns, so before images are "
        "derived." if key else f"The index of its replica identity is gone: {_FAILS}.",
        next="" if key else "name another index, or FULL.",
        warnings=(
            IdentityWarning(
                level="note" if key else "look",
                word="INDEX",
                why="rows are known by an index: without it updates and deletes fail"
                if key else _FAILS,
            ),
            *(() if key else (_NO_ROW_KEY,)),
        ),
        statements=full,
    )  # fmt: skip


def _default_words(
    key: str, full: tuple[tuple[str, str], ...], add_key: tuple[tuple[str, str], ...]
) -> IdentityWords:
    if key:
        return IdentityWords(
            now=f"DEFAULT, primary key ({key})",
            old_row="only the key, when it changes or the row is deleted",
            level="ok",
            cause="Replica identity DEFAULT sends no old values, so before images are derived.",
            next="weigh FULL.",
            statements=full,
        )
    return IdentityWords(
        now="DEFAULT, without a primary key",
        old_row="none: only inserts and truncates can be received",
        level="look",
        cause=f"Replica identity DEFAULT without a primary key: {_FAILS}.",
        next="give it a primary key, or FULL.",
        warnings=(
            replace(_NO_ROW_KEY, word="DEFAULT, no key", why=f"{_FAILS}, and {_NOT_IDENTIFIED}"),
        ),
        statements=(*add_key, *full),
    )


def _unknown_words(key: str) -> IdentityWords:
    return IdentityWords(
        now="unknown: this output plugin does not send it",
        old_row="unknown: this output plugin does not send it",
        level="ok" if key else "look",
        cause="Its replica identity is unknown: this output plugin does not send it.",
        warnings=() if key else (_NO_ROW_KEY,),
    )


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table, as read from the source's catalog."""

    schema: str
    table: str
    oid: int | None
    #: Published columns; None when all are.
    columns: tuple[str, ...] | None
    unpublished_columns: tuple[str, ...]
    row_filter: str
    #: Published operations, as letters of ``IUDT``.
    operations: str
    replica_identity: str
    primary_key: tuple[str, ...]
    #: Partitioned root, such as ``public.events``; empty if the table is no partition.
    root: str


@dataclass(slots=True)
class PublishedTables:
    """All published tables of a slot, as read from the source's catalog."""

    tables: list[PublishedTable] = field(default_factory=list)
    by_oid: dict[int, PublishedTable] = field(default_factory=dict)
    by_name: dict[tuple[str, str], PublishedTable] = field(default_factory=dict)
    #: True when changes of partitions are published as changes of their root.
    via_root: bool = False
    #: Tables of the source that no publication contains.
    unpublished: frozenset[str] = frozenset()

    def find(self, oid: int, schema: str, table: str) -> PublishedTable | None:
        """Return a table by its OID, even after a rename, else by its name."""
        return self.by_oid.get(oid) or self.by_name.get((schema, table))

    def standing(self, oid: int, schema: str, table: str, *, changed: bool) -> str:
        """Return why a table of the stream is not published now; empty if it is.

        With ``publish_via_partition_root`` the stream also describes partitions, whose changes come
        as changes of their root.
        """
        if self.find(oid, schema, table) is not None:
            return ""
        if f"{schema}.{table}" in self.unpublished:
            return "not published now"
        return "comes as its root" if self.via_root and not changed else "not on the source now"

    def leaves_of(self, name: str) -> list[PublishedTable]:
        """Return the published partitions of ``schema.table``."""
        return [table for table in self.tables if table.root == name]


def tables_of_look(facts: Mapping[str, Any]) -> PublishedTables:
    """Parse ``PublicationLook.facts``; a missing value is unknown."""
    published = PublishedTables()
    published.via_root = any(
        publication.get("via_root") for publication in facts.get("publications") or ()
    )
    published.unpublished = frozenset(facts.get("unpublished") or ())
    for row in facts.get("tables") or ():
        columns = row.get("columns")
        table = PublishedTable(
            schema=row["schema"],
            table=row["table"],
            oid=row.get("oid"),
            columns=None if columns is None else tuple(columns),
            unpublished_columns=tuple(row.get("unpublished_columns") or ()),
            row_filter=row.get("row_filter") or "",
            operations=row.get("operations") or "",
            replica_identity=row.get("replica_identity") or "",
            primary_key=tuple(row.get("primary_key") or ()),
            root=row.get("root") or "",
        )
        published.tables.append(table)
        published.by_name[table.schema, table.table] = table
        if table.oid is not None:
            published.by_oid[table.oid] = table
    return published
