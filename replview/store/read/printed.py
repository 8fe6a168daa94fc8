"""A value as somebody types it, and as PostgreSQL prints it: the record has the latter."""

from collections.abc import Mapping
from typing import Any

import psycopg

from replview.store.read.session import ReadSession

#: The first identifier of what is not built in: a domain, an enum.
_FIRST_OWN_OID = 16384


class NotOfTypeError(ValueError):
    """What was typed is no value of the column's type; ``type_name`` is that."""

    def __init__(self, type_name: str) -> None:
        super().__init__(f"no value of type {type_name}")
        self.type_name = type_name


def as_printed(session: ReadSession, column: Mapping[str, Any], value: str) -> str:
    """The value as the server prints one of the column's type: ``2026-1-2`` as ``2026-01-02``.

    What is no built-in type is left as it is: the store does not know it. ``column``: as a
    version's ``columns`` has it. Raises ``NotOfTypeError``.
    """
    oid, typmod = int(column.get("type_oid") or 0), column.get("typmod")
    if not 0 < oid < _FIRST_OWN_OID:
        return value
    typmod = -1 if typmod is None else int(typmod)
    names = session.rows(
        "SELECT typname::text, format_type(oid, %s) FROM pg_type WHERE oid = %s", [typmod, oid]
    )
    if not names:
        return value
    name, full = names[0]
    bare = f'pg_catalog."{name}"'
    # A cast to a length cuts or rounds: what is not the same afterwards is no value of the type.
    same = f"typed.value::{bare} = typed.value::{full}" if typmod >= 0 else "TRUE"
    sql = f"""
        SELECT format('%%s', typed.value::{full}), {same}
        FROM (SELECT %s::text AS value) AS typed
    """  # noqa: S608 (the names of built-in types, as the server has just written them)
    try:
        if session.server_version >= 160000:
            valid = session.rows("SELECT pg_input_is_valid(%s, %s)", [value, full])
            if not valid[0][0]:
                raise NotOfTypeError(full)
        printed, is_same = session.rows(sql, [value])[0]
    except (psycopg.DataError, session.data_error):
        raise NotOfTypeError(full) from None
    if not is_same:
        raise NotOfTypeError(full)
    return str(printed)
