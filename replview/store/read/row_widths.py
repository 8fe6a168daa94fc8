"""The width of a table's rows, averaged over a bounded sample."""

from dataclasses import dataclass

from psycopg import sql

from replview.store.read.session import ReadSession

#: Number of changes in the sample.
SAMPLE = 150
# The order by key hash makes a practically random sample. Rows that change more often weigh more.
_WIDTHS = sql.SQL("""
    SELECT count(*), avg(width)::float8, avg(key_width)::float8, count(*) FILTER (WHERE partial)
    FROM (
        SELECT (SELECT coalesce(sum(octet_length(v.value)), 0) FROM jsonb_each_text(c.new) v)
                   AS width,
               (SELECT coalesce(sum(octet_length(c.new->>k)), 0) FROM unnest(%(key)s::text[]) k)
                   AS key_width,
               (SELECT count(*) FROM jsonb_object_keys(c.new)) < %(columns)s::int AS partial
        FROM (SELECT op, new FROM change
              WHERE relation_id = %(relation)s::bigint AND key_hash IS NOT NULL
              ORDER BY key_hash, lsn, seq LIMIT {sample}) c
        WHERE c.op IN ('I', 'U') AND c.new IS NOT NULL) w
""").format(sample=SAMPLE)


@dataclass(frozen=True, slots=True)
class RowWidths:
    """Average widths of stored rows: bytes of their values as text."""

    rows: int
    row_bytes: float
    key_bytes: float
    #: True if some rows lack an unchanged large value, so that the real rows are wider.
    at_least: bool


def row_widths(
    session: ReadSession, relation_id: int, key_columns: list[str], columns: int
) -> RowWidths | None:
    """Return the widths of a table's rows; None where no row with a key is stored.

    None also where some value may not be seen, because an average tells how long it is.
    """
    visibility = session.visibility
    if visibility.hides(relation_id) or visibility.masked(relation_id):
        return None
    params = {"relation": relation_id, "key": key_columns, "columns": columns}
    rows, width, key_width, partial = session.prepared_rows(_WIDTHS, params)[0]
    return RowWidths(rows, width, key_width, partial > 0) if rows else None
