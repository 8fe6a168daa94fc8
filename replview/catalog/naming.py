"""This module quotes names for SQL that is shown, parses names of tables, and checks slot names."""

import re

from replview.text.parsing import name_parts

#: The longest name that PostgreSQL takes: NAMEDATALEN - 1.
LONGEST_NAME_BYTES = 63


def quoted(*names: str) -> str:
    """Return an identifier in double quotes, which keywords need; psycopg quotes the same way."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: str) -> str:
    """Return a string constant for SQL that is shown; psycopg composes the SQL that runs."""
    return "'" + text.replace("'", "''") + "'"


def table_parts(text: str) -> tuple[str, str]:
    """Return ``(schema, table)`` of a text that ``table_text`` wrote.

    A name without a schema is in ``public``. The first dot outside quotes ends the schema.
    """
    first, *rest = name_parts(text)
    return (first, ".".join(rest)) if rest else ("public", first)


def slot_name_fault(name: str) -> str:
    """Return why PostgreSQL would refuse the slot name, or truncate it; empty: it is valid."""
    if len(name.encode()) > LONGEST_NAME_BYTES:
        return (
            f"a slot name has at most {LONGEST_NAME_BYTES} bytes, this one has "
            f"{len(name.encode())}: the server would cut it silently"
        )
    if not re.fullmatch(r"[a-z0-9_]+", name):
        return "a slot name has only lower-case letters a-z, digits and underscores"
    return ""
