"""Names in statements that are shown to be copied, names of tables as text, and which slot names
PostgreSQL takes.
"""

import re

from replview.text.parsing import name_parts

#: NAMEDATALEN - 1.
LONGEST_NAME_BYTES = 63


def quoted(*names: str) -> str:
    """An identifier as psycopg writes it too: always in double quotes, so keywords are safe."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: str) -> str:
    """A string constant, for showing; what is run is composed by psycopg."""
    return "'" + text.replace("'", "''") + "'"


def table_parts(text: str) -> tuple[str, str]:
    """``(schema, table)`` of what ``table_text`` wrote. A table alone is of ``public``; of what is
    not in quotes the first dot parts.
    """
    first, *rest = name_parts(text)
    return (first, ".".join(rest)) if rest else ("public", first)


def some_of(names: list[str], limit: int = 10) -> str:
    """Names for a sentence: the first ten, then how many more."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def slot_name_fault(name: str) -> str:
    """Why PostgreSQL would not take the slot name, or would cut it silently; empty: it is fine."""
    if len(name.encode()) > LONGEST_NAME_BYTES:
        return (
            f"a slot name has at most {LONGEST_NAME_BYTES} bytes, this one has "
            f"{len(name.encode())}: the server would cut it silently"
        )
    if not re.fullmatch(r"[a-z0-9_]+", name):
        return "a slot name has only lower-case letters a-z, digits and underscores"
    return ""
