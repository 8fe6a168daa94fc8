"""SQL text for names and values, which every server reads alike, whatever its settings.

Nothing is executed here. The statements are for people to copy.
"""

import re

#: Key words that have to be quoted as a name (all but the "unreserved" ones). Source: PostgreSQL
#: 18, pg_get_keywords().
KEY_WORDS = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
    boolean both case cast char character check coalesce collate collation column concurrently
    constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user dec decimal default deferrable desc distinct do else end except
    exists extract false fetch float for foreign freeze from full grant greatest group grouping
    having ilike in initially inner inout int integer intersect interval into is isnull join json
    json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
    json_serialize json_table json_value lateral leading least left like limit localtime
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif
    numeric offset on only or order out outer overlaps overlay placing position precision primary
    real references returning right row select session_user setof similar smallint some substring
    symmetric system_user table tablesample then time timestamp to trailing treat trim true union
    unique user using values varchar variadic verbose when where window with xmlattributes
    xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
    xmltable
    """.split()  # noqa: SIM905 (a list would be 170 lines)
)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_WHOLE_NUMBER = re.compile(r"-?[0-9]+\Z")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?\Z")
_WHOLE_TYPES = ("smallint", "integer", "bigint")
#: Types whose text values can be compared by ``=``, independently of a session's settings.
_COMPARABLE = (
    frozenset(
        """
    smallint integer bigint numeric real boolean text name date uuid bytea inet cidr macaddr
    macaddr8 interval money oid pg_lsn jsonb xid8 tsvector tsquery int4range int8range numrange
    tsrange tstzrange daterange int4multirange int8multirange nummultirange tsmultirange
    tstzmultirange datemultirange
    character bit
    """.split()  # noqa: SIM905 (as above)
    )
    | {"double precision", "character varying", "bit varying"}
    | {f"{kind} {zone} time zone" for kind in ("time", "timestamp") for zone in ("with", "without")}
)


def identifier(name: str) -> str:
    """Return the name as an SQL identifier, quoted where necessary."""
    if _PLAIN_NAME.match(name) and name not in KEY_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def table_name(schema: str | None, table: str) -> str:
    """Return the SQL name of a table, such as ``public.orders``."""
    return f"{identifier(schema)}.{identifier(table)}" if schema else identifier(table)


def comment(text: str) -> str:
    """Return the text as one line of SQL comment: names may contain line breaks."""
    return "-- " + " ".join(text.split()) + "\n"


def string(text: str) -> str:
    """Return a string constant with one meaning under any ``standard_conforming_strings``."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def base_type(type_name: str | None) -> str:
    """Return a type's name without its modifier: ``numeric`` for ``numeric(12,2)``."""
    return re.sub(r"\s*\([^)]*\)", "", type_name or "")


def literal(value: object, type_name: str | None = None) -> str:
    """Return a value, in the text form that the server sent, as an SQL constant.

    Numbers and booleans are bare. Everything else is a string, which takes the column's type where
    it is assigned or compared.
    """
    if value is None:
        return "NULL"
    text, base = str(value), base_type(type_name)
    is_whole = base in _WHOLE_TYPES and _WHOLE_NUMBER.match(text)
    if is_whole or (base == "numeric" and _NUMBER.match(text)):
        return text
    if base == "boolean" and text in ("t", "f"):
        return "true" if text == "t" else "false"
    return string(text)


def equals(name: str, value: object, type_name: str | None, *, key: bool = False) -> str:
    """Return the condition that a column has this value.

    A ``key`` column is always compared by ``=``: it has an index, so its type has the operator.
    """
    column = identifier(name)
    if value is None:
        return f"{column} IS NULL"
    base = base_type(type_name)
    if key or base.removesuffix("[]") in _COMPARABLE:
        return f"{column} = {literal(value, type_name)}"
    # The types json and xml have no equality, and that of point or a composite type means something
    # else.
    return f"{column}::text = {string(str(value))}"
