"""Types as SQL writes them, with their modifiers: ``numeric(12,2)``, ``character varying(40)``."""

from collections.abc import Iterable

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

FORMAT_TYPES = Query(
    name="format_types",
    about="Types with their modifiers as SQL writes them; anyone may read it.",
    sql="""
        SELECT oid, typmod, format_type(oid, typmod) AS name
          FROM unnest(%s::oid[], %s::int[]) AS wanted (oid, typmod)
    """,
)


def format_types(
    connection: Connection, wanted: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """``{(oid, typmod): name}``; oids the server does not know are left out."""
    pairs = sorted(set(wanted))
    rows = FORMAT_TYPES.rows(connection, [p[0] for p in pairs], [p[1] for p in pairs])
    return {(row["oid"], row["typmod"]): row["name"] for row in rows if row["name"] != "???"}
