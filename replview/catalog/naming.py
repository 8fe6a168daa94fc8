"""Names in statements that are shown to be copied, and which slot names PostgreSQL takes."""

import re

#: NAMEDATALEN - 1.
LONGEST_NAME_BYTES = 63


def quoted(*names: str) -> str:
    """An identifier as psycopg writes it too: always in double quotes, so keywords are safe."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: str) -> str:
    """A string constant, for showing; what is run is composed by psycopg."""
    return "'" + text.replace("'", "''") + "'"


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
