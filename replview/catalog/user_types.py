"""What the types of a database that are not built in are made of, to read their binary form."""

from dataclasses import dataclass
from typing import Literal

from replview.catalog.connections import Connection
from replview.catalog.queries import Query

Kind = Literal["enum", "domain", "array", "composite", "range", "multirange"]

USER_TYPES = Query(
    name="user_types",
    about="Types with an oid that no built-in type has, and what each is over; 14 and later.",
    sql="""
        SELECT t.oid,
               CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN 'array'
                    WHEN t.typtype = 'e' THEN 'enum' WHEN t.typtype = 'd' THEN 'domain'
                    WHEN t.typtype = 'c' THEN 'composite' WHEN t.typtype = 'r' THEN 'range'
                    WHEN t.typtype = 'm' THEN 'multirange' END AS kind,
               COALESCE(NULLIF(t.typbasetype, 0), r.rngsubtype, m.rngsubtype,
                        NULLIF(t.typelem, 0), 0) AS over_oid
          FROM pg_type AS t
          LEFT JOIN pg_range AS r ON r.rngtypid = t.oid
          LEFT JOIN pg_range AS m ON m.rngmultitypid = t.oid
         WHERE t.oid >= 16384
           AND (t.typtype IN ('e', 'd', 'c', 'r', 'm') OR t.typcategory = 'A')
    """,
)


@dataclass(frozen=True, slots=True)
class UserTypeFacts:
    """One type of the database."""

    oid: int
    kind: Kind
    #: What a domain, array or range is over; 0 for the others.
    over_oid: int


def read_user_types(connection: Connection) -> list[UserTypeFacts]:
    """All types that are not built in; empty before 14, where no stream is binary."""
    if connection.info.server_version < 140000:
        return []
    rows = USER_TYPES.rows(connection)
    return [UserTypeFacts(**row) for row in rows if row["kind"] is not None]
