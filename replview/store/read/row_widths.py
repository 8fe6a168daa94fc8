"""How wide a table's rows are, from a bounded sample."""

from dataclasses import dataclass

from replview.store.read.session import ReadSession

#: Changes that are looked at.
SAMPLE = 150
# By the keys' hashes: as good as drawn by lot; rows that change more often weigh more.
_WIDTHS = f"""
    SELECT count(*), avg(width)::float8, avg(key_width)::float8, count(*) FILTER (WHERE partial)
    FROM (
        SELECT (SELECT coalesce(sum(octet_length(v.value)), 0) FROM jsonb_each_text(c.new) v)
                   AS width,
               (SELECT coalesce(sum(octet_length(c.new->>k)), 0) FROM unnest(%(key)s::text[]) k)
                   AS key_width,
               (SELECT count(*) FROM jsonb_object_keys(c.new)) < %(columns)s::int AS partial
        FROM (SELECT op, new FROM change
              WHERE relation_id = %(relation)s::bigint AND key_hash IS NOT NULL
              ORDER BY key_hash, lsn, seq LIMIT {SAMPLE}) c
        WHERE c.op IN ('I', 'U') AND c.new IS NOT NULL) w
"""  # noqa: S608 (of a constant)


@dataclass(frozen=True, slots=True)
class RowWidths:
    """Averages over stored rows; lengths of values as text."""

    rows: int
    row_bytes: float
    key_bytes: float
    #: Some rows came without a large value that had not changed: they are wider than told.
    at_least: bool


def row_widths(
    session: ReadSession, relation_id: int, key_columns: list[str], columns: int
) -> RowWidths | None:
    """The widths of a table's rows; None where none with a key is stored, and where some value is
    not to be seen: an average tells how long it is.
    """
    visibility = session.visibility
    if visibility.hides(relation_id) or visibility.masked(relation_id):
        return None
    parameters = {"relation": relation_id, "key": key_columns, "columns": columns}
    rows, width, key_width, partial = session.prepared_rows(_WIDTHS, parameters)[0]
    return RowWidths(rows, width, key_width, partial > 0) if rows else None
