"""Names and values as SQL text that any server reads alike, whatever its settings.

Pure: nothing is executed here. The statements are for people to copy.
"""

import re

#: Key words that cannot stand as a name without quotes (all that are not "unreserved").
#: Source: PostgreSQL 18, pg_get_keywords().
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
#: Types whose values compare by ``=`` as written, without regard to a session's settings.
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
    """A name, quoted where it must be."""
    if _PLAIN_NAME.match(name) and name not in KEY_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def table_name(schema: str | None, table: str) -> str:
    """``public.orders``."""
    return f"{identifier(schema)}.{identifier(table)}" if schema else identifier(table)


def comment(text: str) -> str:
    """A line of comment, whatever the text holds: a name may have a line's end in it."""
    return "-- " + " ".join(text.split()) + "\n"


def string(text: str) -> str:
    """A string constant that reads alike under any ``standard_conforming_strings``."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return " E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def base_type(type_name: str | None) -> str:
    """``numeric`` of ``numeric(12,2)``, ``timestamp with time zone`` of ``timestamp(3) with …``."""
    return re.sub(r"\s*\([^)]*\)", "", type_name or "")


def literal(value: object, type_name: str | None = None) -> str:
    """A value as the server wrote it, as a constant of its column's type: numbers and booleans
    bare, everything else as a string, which takes the type where it is assigned or compared.
    """
    if value is None:
        return "NULL"
    text, known = str(value), base_type(type_name)
    whole = known in _WHOLE_TYPES and _WHOLE_NUMBER.match(text)
    if whole or (known == "numeric" and _NUMBER.match(text)):
        return text
    if known == "boolean" and text in ("t", "f"):
        return "true" if text == "t" else "false"
    return string(text).lstrip()


def equals(name: str, value: object, type_name: str | None, *, key: bool = False) -> str:
    """A condition that a column has this value; a ``key`` column has an index, so it has ``=``."""
    column = identifier(name)
    if value is None:
        return f"{column} IS NULL"
    known = base_type(type_name)
    if key or known.removesuffix("[]") in _COMPARABLE:
        return f"{column} = {literal(value, type_name)}"
    # json, xml, point and composite types have no equality, or one that means something else.
    return f"{column}::text = {string(str(value)).lstrip()}"
