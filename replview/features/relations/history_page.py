"""Build the page of one table's versions: headline, timeline, and a comparison of two."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from django.utils import timezone

from replview.access.visibility import reading_session
from replview.features.relations import identity_text
from replview.features.relations.carried_values import values_carried
from replview.features.relations.schema_history import (
    SchemaHistory,
    VersionHistory,
    VersionPeriod,
    schema_history,
)
from replview.features.relations.source_now import (
    FullCost,
    SourceNow,
    full_cost,
    read_source_now,
)
from replview.store.django_session import masked_columns
from replview.store.looks import latest_look
from replview.store.models import Relation, Slot, TypeName
from replview.store.read.coverage import Coverage, coverage_of
from replview.store.read.mask_rules import named_columns, table_readings
from replview.store.read.seen import seen_definition
from replview.text.addresses import relation_url
from replview.ui.params import Params
from replview.ui.versions import (
    CarriedValues,
    ComparedVersion,
    Diff,
    compare,
    rename_candidates,
    shape_of,
    summary,
)

#: Width of the bar of the version with the most changes, in pixels.
BAR = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEntry:
    """A version in the timeline of a table."""

    history: VersionHistory
    #: The difference from the version before, in one line.
    line: str
    #: Time for which the version was in force, over all its periods; None when unknown.
    held: timedelta | None
    current: bool
    #: Width of the bar, at most ``BAR``.
    width: float
    #: Address that compares the version with the one before.
    url: str
    #: The side of the comparison that shows the version: ``from``, ``to`` or empty.
    chosen: str

    @property
    def number(self) -> int:
        """Return the version's number."""
        return self.history.version.number

    @property
    def again(self) -> list[VersionPeriod]:
        """Return the later periods in which the version was in force again, newest first."""
        return self.history.periods[:0:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChoice:
    """A version in the menu that selects versions to compare."""

    number: int
    history: VersionHistory
    url: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The coverage of a table in the record, and the cost of replica identity FULL."""

    coverage: Coverage
    #: None unless the identity is DEFAULT or INDEX and enough rows are stored for an estimate.
    cost: FullCost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPage:
    """The page of a table's versions, with two of them compared."""

    relation: Relation
    history: SchemaHistory
    entries: list[VersionEntry]
    identity: identity_text.IdentityWords | None
    #: The later version of the comparison; None while the table has no version.
    to: VersionHistory | None
    #: The version that ``to`` is compared with; None when ``to`` is the first.
    before: VersionHistory | None
    diff: Diff | None
    #: The columns of ``to`` and of ``before``.
    shape: ComparedVersion | None
    changed_only: bool
    #: The table when publications were last read; None if not read yet, or not published.
    published: identity_text.PublishedTable | None
    #: True when the publications were read at least once.
    looked: bool
    #: The reason that the table is not published; empty if it is.
    standing: str = ""
    #: Published partitions of the table.
    leaves: tuple[identity_text.PublishedTable, ...] = ()
    #: Id of the partitioned root's page; None if there is no root, or no page of it.
    root_id: int | None = None
    #: The later table that has the same name now, if there is one.
    successor: Relation | None = None
    #: None when the browser loads it afterwards.
    evidence: Evidence | None = None
    #: The table in the source's catalog; None when the browser loads it afterwards.
    now: SourceNow | None = None

    @property
    def slot(self) -> Slot:
        """Return the slot whose stream has the table."""
        return self.relation.slot

    @property
    def columns_url(self) -> tuple[str, str]:
        """Return the addresses of *Changed only* and *All columns*."""
        return self._url(columns="changed"), self._url()

    @property
    def swap_url(self) -> str:
        """Return the address of the comparison in the other direction; empty if there is none."""
        if self.before is None or self.to is None:
            return ""
        numbers = {"from": str(self.to.version.number), "to": str(self.before.version.number)}
        return self._url(**numbers)

    def choices(self, side: str) -> list[VersionChoice]:
        """Return the versions as a menu for ``from`` or ``to``."""
        chosen = self.before if side == "from" else self.to
        numbered = [(version.version.number, version) for version in self.history.versions]
        return [
            VersionChoice(
                number=number,
                history=version,
                url=self._url(**{side: str(number)}),
                current=version is chosen,
            )
            for number, version in numbered
        ]

    @property
    def from_choices(self) -> list[VersionChoice]:
        """Return the menu of the earlier version."""
        return self.choices("from")

    @property
    def to_choices(self) -> list[VersionChoice]:
        """Return the menu of the later version."""
        return self.choices("to")

    def _url(self, **changed: str) -> str:
        params = {
            "from": str(self.before.version.number) if self.before else "",
            "to": str(self.to.version.number) if self.to else "",
            "columns": "changed" if self.changed_only and changed else "",
            **changed,
        }
        return relation_url(
            self.relation.pk, **{name: value for name, value in params.items() if value}
        )


def read_schema_page(relation: Relation, query: Mapping[str, object]) -> SchemaPage:
    """Build the page with at most seven queries to the store and none to the source."""
    history = schema_history(relation)
    type_names = _type_names(relation, history)
    params = Params(query)
    newest = next(iter(history.versions), None)
    to = history.number(params.number("to", digits=8) or 0) or history.current or newest
    before = history.number(params.number("from", digits=8) or 0)
    before = before or (history.before(to) if to else None)
    if before is to:
        before = None
    look = latest_look(relation.slot)
    published = (
        identity_text.tables_of_look(look.facts) if look else identity_text.PublishedTables()
    )
    changed = any(version.counts.changes for version in history.versions)
    visible = _visible_published(relation, published)
    root_id, successor = _root_and_successor(relation, visible)
    return SchemaPage(
        relation=relation,
        history=history,
        entries=_version_entries(history, type_names, to, before),
        identity=_identity_words(relation, history),
        to=to,
        before=before,
        diff=_diff(relation, before, to, type_names),
        shape=shape_of(to.version, type_names) if to else None,
        changed_only=query.get("columns") == "changed" and before is not None,
        published=visible,
        looked=look is not None,
        standing=published.standing(relation.oid, relation.schema, relation.table, changed=changed),
        leaves=tuple(published.leaves_of(str(relation))),
        root_id=root_id,
        successor=successor,
    )


def read_evidence(relation: Relation) -> Evidence:
    """Read the coverage of the table, and estimate the cost of replica identity FULL."""
    return Evidence(
        coverage=coverage_of(
            reading_session(), relation.slot, table=(relation.schema, relation.table)
        ),
        cost=full_cost(schema_history(relation)),
    )


def read_now(page: SchemaPage) -> SourceNow:
    """Query the source's catalog about the page's table, for five seconds at most."""
    shapes = [shape_of(version.version) for version in page.history.versions]
    left_out = page.published.unpublished_columns if page.published else ()
    return read_source_now(page.slot.source, page.relation, shapes, left_out)


def _visible_published(
    relation: Relation, tables: identity_text.PublishedTables
) -> identity_text.PublishedTable | None:
    """Return the table as published now, with its row filter as far as the account may see it."""
    published = tables.find(relation.oid, relation.schema, relation.table)
    if published is None or not published.row_filter:
        return published
    table_names = {(relation.schema, relation.table), (published.schema, published.table)}
    visibility = reading_session().visibility
    # Also mask what a rule masks under a former name of the table, or by its type.
    masked = visibility.masked(relation.pk)
    row_filter = seen_definition(
        published.row_filter, visibility, relation.slot.source_id, table_names, also=masked
    )
    return replace(published, row_filter=row_filter)


def _type_names(relation: Relation, history: SchemaHistory) -> dict[int, str]:
    """Return names, from later Type messages, for types that a version has no name of."""
    columns = [column for version in history.versions for column in version.version.columns]
    missing = {int(c.get("type_oid") or 0) for c in columns if not c.get("type")} - {0}
    if not missing:
        return {}
    type_names = TypeName.objects.filter(
        slot=relation.slot_id, system_identifier=relation.system_identifier, oid__in=missing
    )
    return {
        row.oid: row.name if row.schema == "pg_catalog" else f"{row.schema}.{row.name}"
        for row in type_names
    }


def _identity_words(
    relation: Relation, history: SchemaHistory
) -> identity_text.IdentityWords | None:
    current = history.current
    if current is None:
        return None
    version = current.version
    columns = named_columns(version.columns)
    masked = masked_columns(relation.slot.source_id, relation.schema, relation.table, columns)
    # A rule on display hides values only when they are shown, so the key is stored.
    rules = {name for name, stage in masked.items() if stage == "ingest"}
    rules |= set(relation.slot.column_rules.get(str(relation)) or {})
    return identity_text.identity_words(relation.schema, relation.table, version.replica_identity,
                          version.key_columns, rules)  # fmt: skip


def _diff(
    relation: Relation,
    before: VersionHistory | None,
    to: VersionHistory | None,
    type_names: Mapping[int, str],
) -> Diff | None:
    if before is None or to is None:
        return None
    old, new = shape_of(before.version, type_names), shape_of(to.version, type_names)
    pairs = rename_candidates(old, new)
    carried = values_carried(relation.pk, before, to, pairs) if pairs else {}
    return compare(old, new, {pair: CarriedValues(*numbers) for pair, numbers in carried.items()})


def _version_entries(
    history: SchemaHistory,
    type_names: Mapping[int, str],
    to: VersionHistory | None,
    before: VersionHistory | None,
) -> list[VersionEntry]:
    most_changes = max(
        (version_history.counts.changes for version_history in history.versions), default=0
    )
    entries = []
    for version in history.versions:
        previous = history.before(version)
        previous_shape = shape_of(previous.version, type_names) if previous else None
        from_param = {"from": str(previous.version.number)} if previous else {}
        chosen = "to" if version is to else "from" if version is before else ""
        share = version.counts.changes / most_changes if most_changes else 0.0
        entries.append(
            VersionEntry(
                history=version,
                line=summary(previous_shape, shape_of(version.version, type_names)),
                held=_time_in_force(version),
                current=version is history.current,
                width=round(max(share * BAR, 2.0 if version.counts.changes else 0.0), 1),
                url=relation_url(history.relation.pk, **from_param, to=str(version.version.number)),
                chosen=chosen,
            )
        )
    return entries


def _time_in_force(version: VersionHistory) -> timedelta | None:
    """Return how long the version was in force, over all its periods; None when unknown."""
    total = timedelta(0)
    for period in version.periods:
        until = timezone.now() if period.current else period.until
        if period.began_at is None or until is None:
            return None
        total += max(until - period.began_at, timedelta(0))
    return total if version.periods else None


def _root_and_successor(
    relation: Relation, published: identity_text.PublishedTable | None
) -> tuple[int | None, Relation | None]:
    """Return the id of the partitioned root's page, and the later table with the same name."""
    root_id, successor = None, None
    names = [(relation.schema, relation.table)]
    if published and published.root:
        names += table_readings(published.root)
    schemas, tables = zip(*names, strict=True)
    rows = Relation.objects.filter(slot=relation.slot_id, schema__in=schemas, table__in=tables)
    for row in rows.order_by("id"):
        if (row.schema, row.table) == names[0]:
            successor = row if row.pk > relation.pk else successor
        elif (row.schema, row.table) in names[1:]:
            root_id = row.pk
    return root_id, successor
