"""Read a table from its source's catalog, and compare it with the versions in the record.

The catalog has no history, so pages mark its data as current and never mix it with the record.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from django.utils import timezone

from replview.access.visibility import reading_session
from replview.catalog.problems import SourceProblem
from replview.catalog.table_now import IndexNow, TableNow, look_at_table
from replview.features.relations.schema_history import SchemaHistory
from replview.store.dsn import UNUSABLE, full_conninfo
from replview.store.models import Relation, RelationVersion, Source
from replview.store.read.row_widths import row_widths
from replview.store.read.seen import seen_definition
from replview.store.read.visibility import NO_RIGHT, Visibility
from replview.text.formats import bytes_words, plural, short_type
from replview.ui.versions import ComparedVersion, VersionColumn, compare, summary

#: Least time that a daily rate is computed from.
_LEAST_AGE = timedelta(hours=1)
#: Least number of stored rows for an estimate.
_ENOUGH_ROWS = 5
#: Plurals that do not end in s.
_PLURALS = {"unique": "unique"}


@dataclass(slots=True)
class SourceNow:
    """The table in the source's catalog, or the reason that it could not be read."""

    at: datetime
    table: TableNow | None = None
    trouble: SourceProblem | None = None
    #: The reason that there is no table: another cluster, or no table with this OID.
    absent: str = ""
    #: Comparison of the columns: ``equal to version 5``, or the difference.
    columns: str = ""
    #: Columns that are not in the stream: generated or unpublished ones.
    not_in_stream: list[str] = field(default_factory=list)

    @property
    def constraints(self) -> str:
        """Return the constraints in words: ``1 primary key, 2 checks, 1 foreign key``."""
        # PostgreSQL 18 lists each NOT NULL as a constraint; pages show it with the column.
        kinds = [constraint.kind for constraint in (self.table.constraints if self.table else ())]
        counts = Counter(kind for kind in kinds if kind != "not null")
        words = [
            plural(number, kind, _PLURALS.get(kind, f"{kind}s")) for kind, number in counts.items()
        ]
        return ", ".join(words) or "none"

    @property
    def index_bytes(self) -> int | None:
        """Return the size of all indexes; None if one is unknown."""
        sizes = [index.size_bytes for index in self.indexes]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def indexes(self) -> tuple[IndexNow, ...]:
        """Return the table's indexes."""
        return self.table.indexes if self.table else ()

    @property
    def defaults(self) -> list[tuple[str, str]]:
        """Return each column that has a default, with its SQL."""
        return [
            (column.name, "generated as identity" if column.identity
             else f"{'generated as ' if column.generated else ''}{column.expression}")
            for column in (self.table.columns if self.table else ())
            if column.identity or column.expression
        ]  # fmt: skip


def read_source_now(
    source: Source,
    relation: Relation,
    shapes: Iterable[ComparedVersion],
    unpublished: Iterable[str] = (),
) -> SourceNow:
    """Read the table from the source's catalog; a failure is returned as ``trouble``, not raised.

    ``shapes`` are the versions, newest first. ``unpublished`` are the columns that the publications
    left out when they were last read.
    """
    now, visibility = SourceNow(timezone.now()), reading_session().visibility
    no_right = SourceProblem("no_right", f"you have {NO_RIGHT} of the table", "Ask an admin for it")
    if visibility.hides(relation.pk):
        now.trouble = no_right
        return now
    try:
        system_identifier, table = look_at_table(full_conninfo(source), relation.oid)
        if system_identifier is not None and system_identifier != relation.system_identifier:
            now.absent = "the source is now another cluster than the recorded one"
            return now
        if table and visibility.hides_table(source.pk, table.schema, table.name):
            now.trouble = no_right
            return now
        now.table = table and _visible_table(table, visibility, relation)
    except SourceProblem as error:
        now.trouble = error
    except UNUSABLE as error:
        now.trouble = SourceProblem("bad_dsn", str(error), "Fix that, or change its credentials")
    if now.table is None:
        if now.trouble is None:
            now.absent = f"the source has no table with oid {relation.oid}: it was dropped"
        return now
    _compare_columns(now, list(shapes), set(unpublished))
    return now


def _visible_table(table: TableNow, visibility: Visibility, relation: Relation) -> TableNow:
    """Return the table without definitions that may contain masked values."""
    names = {(relation.schema, relation.table), (table.schema, table.name)}
    dropped = relation.slot.column_rules.get(str(relation)) or ()
    visible = partial(
        seen_definition, visibility=visibility, source_id=relation.slot.source_id, names=names,
        also=visibility.masked(relation.pk).union(dropped),
    )  # fmt: skip
    return replace(
        table,
        columns=tuple(
            replace(
                column, expression=column.expression and visible(column.expression, of=column.name)
            )
            for column in table.columns
        ),
        constraints=tuple(
            replace(constraint, definition=visible(constraint.definition))
            for constraint in table.constraints
        ),
        indexes=tuple(
            replace(index, definition=visible(index.definition)) for index in table.indexes
        ),
    )


def _compare_columns(now: SourceNow, shapes: list[ComparedVersion], unpublished: set[str]) -> None:
    """Describe the current columns: equal to a version, or how they differ from the newest."""
    assert now.table is not None
    if not shapes:
        now.columns = "no version is recorded yet"
        return
    newest = shapes[0]
    streamed = {version_column.name for shape in shapes for version_column in shape.columns}
    now.not_in_stream = [
        column.name for column in now.table.columns
        if column.name not in streamed and (column.generated or column.name in unpublished)
    ]  # fmt: skip
    left_out = set(now.not_in_stream) | (unpublished - {column.name for column in newest.columns})
    key = newest.key_columns
    columns = tuple(
        VersionColumn(
            column.name,
            short_type(column.type_name),
            (column.type_oid, column.typmod),
            column.name in key,
        )
        for column in now.table.columns
        if column.name not in left_out
    )
    ids = [(version_column.name, version_column.type_id) for version_column in columns]
    for shape in shapes:
        if [
            (version_column.name, version_column.type_id) for version_column in shape.columns
        ] == ids:
            now.columns = f"equal to version {shape.number}"
            return
    present = replace(newest, columns=columns)
    differing = summary(newest, present, compare(newest, present))
    now.columns = f"unlike version {newest.number}: {differing}"


@dataclass(frozen=True, slots=True)
class FullCost:
    """The estimated cost of replica identity FULL."""

    #: For example ``about 412 B more WAL for each update, 404 B for each delete``.
    words: str
    #: For example ``13 MB a day at its average so far``; empty if the record is too short.
    daily: str
    #: For example ``an estimate from 400 stored rows, values as text``.
    basis: str


def full_cost(history: SchemaHistory) -> FullCost | None:
    """Estimate the cost of FULL; None unless the identity is DEFAULT or INDEX, with enough rows."""
    current = history.current
    if current is None or current.version.replica_identity not in ("DEFAULT", "INDEX"):
        return None
    version: RelationVersion = current.version
    key = list(version.key_columns)
    widths = row_widths(reading_session(), history.relation.pk, key, len(version.columns))
    if widths is None or widths.rows < _ENOUGH_ROWS:
        return None
    bound = "at least" if widths.at_least else "about"
    delete_bytes = max(widths.row_bytes - widths.key_bytes, 0)
    updates = sum(entry.counts.updates for entry in history.versions)
    deletes = sum(entry.counts.deletes for entry in history.versions)
    daily = ""
    began_at = history.periods[0].began_at if history.periods else None
    age = timezone.now() - began_at if began_at else timedelta(0)
    if age >= _LEAST_AGE and updates + deletes:
        daily_bytes = (
            (updates * widths.row_bytes + deletes * delete_bytes) / age.total_seconds() * 86400
        )
        daily = f"{bytes_words(daily_bytes)} a day at its average so far"
    return FullCost(
        words=f"{bound} {bytes_words(widths.row_bytes)} more WAL for each update, "
        f"{bytes_words(delete_bytes)} for each delete",
        daily=daily,
        basis=f"an estimate from {plural(widths.rows, 'stored row')}, values as text",
    )
