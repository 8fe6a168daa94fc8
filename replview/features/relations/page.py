"""Build the page of all tables in a slot's stream: last change, counts and version of each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from replview.features.relations.identity_text import (
    IdentityWords,
    PublishedTables,
    identity_words,
    tables_of_look,
)
from replview.store.looks import latest_look
from replview.store.models import Relation, Slot
from replview.store.sums.relation_sums import (
    LastChange,
    RelationSum,
    last_changes,
    rates_of,
    sums_of_slot,
)
from replview.ui.charts.sparkline import Sparkline, rate_sparkline
from replview.ui.params import Params

SORTS = {"last": "Last change", "name": "Name", "changes": "Changes", "versions": "Versions"}
RANGES = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7),
          "30d": timedelta(days=30)}  # fmt: skip
#: Tables on a page.
PAGE_TABLES = 50
#: Most tables of one slot that are read.
MOST_TABLES = 5000
BUCKETS = 48


@dataclass(frozen=True, slots=True)
class RelationsQuery:
    """The query parameters of the page; invalid values are replaced by defaults."""

    q: str = ""
    sort: str = "last"
    warnings: bool = False
    range: str = "24h"
    after: str = ""

    def query(self, **changed: Any) -> str:
        """Return the query string, with some parameters changed."""
        changed_query = replace(self, **{"after": "", **changed})
        params = {
            "q": changed_query.q,
            "sort": changed_query.sort if changed_query.sort != "last" else "",
            "with": "warnings" if changed_query.warnings else "",
            "range": changed_query.range if changed_query.range != "24h" else "",
            "after": changed_query.after,
        }
        return urlencode({name: value for name, value in params.items() if value})


def wanted_of(request: HttpRequest) -> RelationsQuery:
    """Read the query parameters of a request."""
    params = Params(request.GET)
    return RelationsQuery(
        q=params.text("q"),
        sort=params.choice("sort", SORTS, "last"),
        warnings=params.flag("with", "warnings"),
        range=params.choice("range", RANGES, "24h"),
        after=params.text("after", 300, strip=False),
    )


@dataclass(slots=True)
class TableRow:
    """A table as a row of the page."""

    schema: str
    table: str
    #: None for a published table of which no change was received.
    relation_id: int | None = None
    version: int | None = None
    versions: int = 0
    #: Time at which the version was noticed to be in force; None when unknown.
    version_since: datetime | None = None
    sum: RelationSum = field(default_factory=RelationSum)
    last: LastChange | None = None
    spark: Sparkline | None = None
    identity: IdentityWords | None = None
    replica_identity: str = ""
    #: The partitioned root, and the id of its page if it has one.
    root: str = ""
    root_id: int | None = None
    #: True when a later table has the name, so that this one was dropped or renamed.
    former: bool = False
    #: The reason that the table is not published; empty if it is, or if that is unknown.
    standing: str = ""

    @property
    def name(self) -> str:
        """Return ``schema.table``."""
        return f"{self.schema}.{self.table}"

    @property
    def token(self) -> str:
        """Return the value of ``after`` that continues behind this row."""
        return str(self.relation_id) if self.relation_id else self.name

    @property
    def warnings(self) -> tuple[Any, ...]:
        """Return the warnings about the replica identity, those that prevent an audit first."""
        warnings = self.identity.warnings if self.identity else ()
        return tuple(sorted(warnings, key=lambda warning: warning.level != "look"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationsPage:
    """The page of a slot's tables that match the query parameters."""

    slot: Slot
    wanted: RelationsQuery
    rows: list[TableRow]
    #: Number of tables of the slot, whatever the query.
    all_tables: int
    #: Number of tables that match the query.
    found: int
    #: Tables with a warning that prevents an audit.
    grave: list[TableRow]
    #: The table with the latest change among all of the slot.
    newest: TableRow | None
    #: Transactions that the counts do not include yet.
    not_counted: int
    #: Value of ``after`` for the next page; empty on the last page.
    following: str

    @property
    def sorts(self) -> list[tuple[str, str, bool]]:
        """Return label, address and selected state of each sort order."""
        return [
            (label, self.url(sort=name), name == self.wanted.sort) for name, label in SORTS.items()
        ]

    @property
    def ranges(self) -> list[tuple[str, str, bool]]:
        """Return label, address and selected state of each time range."""
        return [(name, self.url(range=name), name == self.wanted.range) for name in RANGES]

    @property
    def warnings_url(self) -> str:
        """Return the address that toggles *with warnings*."""
        return self.url(warnings=not self.wanted.warnings)

    @property
    def clear_url(self) -> str:
        """Return the address without search text and filter."""
        return self.url(q="", warnings=False)

    @property
    def following_url(self) -> str:
        """Return the address of the next page."""
        return self.url(after=self.following)

    def url(self, **changed: Any) -> str:
        """Return the page's address, with some parameters changed."""
        query = self.wanted.query(**changed)
        scope = urlencode({"slot": str(self.slot)}, safe="/")
        return f"{reverse('relations')}?{scope}{'&' if query else ''}{query}"


def read_relations_page(slot: Slot, query: RelationsQuery) -> RelationsPage:
    """Build the page with five queries, whatever the number of tables and transactions."""
    relations = list(
        Relation.objects.filter(slot=slot)
        .select_related("current_version")
        .defer("current_version__columns")
        .annotate(version_count=Count("versions"))
        .order_by("schema", "table", "-id")[:MOST_TABLES]
    )
    sums = sums_of_slot(slot.pk)
    look = latest_look(slot)
    published = tables_of_look(look.facts) if look else None
    rows = [_table_row(slot, relation, sums.by_relation, published) for relation in relations]
    _mark_former(rows)
    if published:
        rows += _unchanged_table_rows(slot, relations, published)
    _set_root_ids(rows)
    matching = _sorted_rows([row for row in rows if _matches_query(row, query)], query.sort)
    start = next((number + 1 for number, row in enumerate(matching) if row.token == query.after), 0)
    shown = matching[start : start + PAGE_TABLES]
    newest = max((r for r in rows if r.sum.last), key=lambda r: r.sum.last, default=None)  # type: ignore[arg-type,return-value]
    _add_last_changes(shown, newest)
    if query.sort == "last":
        shown = _sorted_rows(shown, "last")
    _add_rates(slot, shown, query)
    return RelationsPage(
        slot=slot,
        wanted=query,
        rows=shown,
        all_tables=len(rows),
        found=len(matching),
        grave=[row for row in rows if any(warning.level == "look" for warning in row.warnings)],
        newest=newest,
        not_counted=sums.not_counted,
        following=shown[-1].token if len(matching) > start + PAGE_TABLES else "",
    )


def _table_row(
    slot: Slot, relation: Relation, sums: dict[int, RelationSum], published: PublishedTables | None
) -> TableRow:
    row = TableRow(relation.schema, relation.table, relation.pk,
                   versions=relation.version_count,  # type: ignore[attr-defined]
                   sum=sums.get(relation.pk, RelationSum()))  # fmt: skip
    if version := relation.current_version:
        last_at = (version.intervals or [{}])[-1].get("at")
        noticed_at = version.first_seen_at if len(version.intervals or ()) < 2 else None
        row.version, row.version_since = (
            version.number,
            parse_datetime(str(last_at or "")) or noticed_at,
        )
        row.replica_identity = version.replica_identity
        rules = slot.column_rules.get(row.name) or {}
        row.identity = identity_words(
            row.schema, row.table, version.replica_identity, version.key_columns, rules
        )
    if published is not None:
        table = published.find(relation.oid, relation.schema, relation.table)
        row.root = table.root if table else ""
        row.standing = published.standing(
            relation.oid, row.schema, row.table, changed=row.sum.changes > 0
        )
    return row


def _mark_former(rows: list[TableRow]) -> None:
    """Mark all but the latest table of each name as former."""
    ordered = sorted(rows, key=lambda row: (str(row.version_since or ""), row.relation_id or 0))
    newest = {row.name: row for row in ordered}
    for row in rows:
        row.former = row is not newest[row.name]


def _unchanged_table_rows(
    slot: Slot, relations: Iterable[Relation], published: PublishedTables
) -> list[TableRow]:
    """Return rows for published tables that no received change belongs to."""
    known_oids = {relation.oid for relation in relations}
    names = {(relation.schema, relation.table) for relation in relations}
    rows = []
    for table in published.tables:
        if table.oid in known_oids or (table.schema, table.table) in names:
            continue
        row = TableRow(table.schema, table.table, root=table.root)
        row.replica_identity = table.replica_identity
        key = table.primary_key if table.replica_identity in ("DEFAULT", "FULL") else ("index",)
        if table.replica_identity:
            row.identity = identity_words(row.schema, row.table, table.replica_identity, key)
        rows.append(row)
    return rows


def _set_root_ids(rows: list[TableRow]) -> None:
    """Set ``root_id`` of partitions, so that each links to the page of its root."""
    page_ids = {row.name: row.relation_id for row in rows if not row.former}
    for row in rows:
        row.root_id = page_ids.get(row.root) if row.root else None


def _matches_query(row: TableRow, query: RelationsQuery) -> bool:
    text = query.q.casefold()
    name_matches = text in row.name.casefold() or text in row.root.casefold()
    return name_matches and bool(row.warnings or not query.warnings)


def _sorted_rows(rows: list[TableRow], by: str) -> list[TableRow]:
    ordered = sorted(rows, key=lambda row: (row.schema, row.table, -(row.relation_id or 0)))
    keys: dict[str, Callable[[TableRow], Any]] = {
        "changes": lambda row: row.sum.changes,
        "versions": lambda row: row.versions,
        "last": _last_change_key,
    }
    return sorted(ordered, key=keys[by], reverse=True) if by in keys else ordered


def _last_change_key(row: TableRow) -> tuple[int, int]:
    """Return a sort key for the last change; tables without one come last."""
    last_change = row.sum.last
    if last_change is None:
        return (0, 0)
    return (last_change.number, row.last.commit_seq if row.last else last_change.last_seq)


def _add_last_changes(rows: list[TableRow], newest: TableRow | None) -> None:
    listed = [*rows, newest] if newest else rows
    places = {
        candidate.relation_id: candidate.sum.last
        for candidate in listed
        if candidate.relation_id and candidate.sum.last
    }
    changes = last_changes(places)
    for row in listed:
        row.last = changes.get(row.relation_id or 0)


def _add_rates(slot: Slot, rows: list[TableRow], query: RelationsQuery) -> None:
    ids = [row.relation_id for row in rows if row.relation_id]
    if not ids:
        return
    now = timezone.now()
    rates = rates_of(slot.pk, ids, since=now - RANGES[query.range], until=now, buckets=BUCKETS)
    for row in rows:
        row.spark = rate_sparkline(rates, row.relation_id) if row.relation_id else None
