"""Whether one slot can read all publications of a database: their column lists must agree."""

import psycopg

from replview.catalog.connections import connected
from replview.catalog.doctor.findings import some_of
from replview.catalog.plan.slot_request import refuse
from replview.catalog.problems import SourceTrouble, explain
from replview.catalog.publications import Publication, read_publications


def existing_publications(conninfo: str) -> tuple[str, ...]:
    """All publications of the database, if the server will read them together; maybe none."""
    try:
        with connected(conninfo) as connection:
            found = read_publications(connection)
    except psycopg.Error as error:
        raise SourceTrouble(explain(error, conninfo)) from None
    if clash := clash_of(found):
        raise refuse(
            "publications_clash",
            f"several publications give table {clash} different column lists, which one slot "
            "cannot read",
            f"Choose with --publication among: {some_of([item.name for item in found])}",
        )
    return tuple(item.name for item in found)


def clash_of(publications: list[Publication]) -> str:
    """A table that two publications narrow to different columns; empty if there is none."""
    seen: dict[tuple[str, str], tuple[str, ...] | None] = {}
    for publication in publications:
        for table in publication.tables:
            columns = seen.setdefault((table.schema, table.name), table.columns)
            if columns != table.columns:
                return f"{table.schema}.{table.name}"
    return ""
