"""Which server it is, asked through SQL: what a walsender says to IDENTIFY_SYSTEM."""

from collections.abc import Callable
from contextlib import suppress

from psycopg import errors, sql

from decoder.scalars import LSN
from replview.receiver.sessions import slot_functions as functions
from replview.receiver.sessions.interface import SystemIdentity
from replview.receiver.sessions.walsender import forked_at

#: Runs statements as one transaction; the rows of its SELECTs.
Ask = Callable[..., list[list[tuple[bytes | None, ...]]]]


def identify(ask: Ask) -> SystemIdentity:
    """System identifier, timeline and position; some services keep the first to themselves."""
    look = functions.parse_look(ask(functions.look(""))[0][0])
    identifier = ""
    with suppress(errors.InsufficientPrivilege):
        row = ask(sql.SQL("SELECT system_identifier FROM pg_catalog.pg_control_system()"))[0][0]
        # The function gives a signed number, IDENTIFY_SYSTEM an unsigned one.
        identifier = str(int(row[0] or 0) % (1 << 64))
    return SystemIdentity(identifier, look.timeline, look.position)


def runs_on_linux(ask: Ask) -> bool:
    """Whether the server can notice that its client is gone."""
    row = ask(sql.SQL("SELECT pg_catalog.version()"))[0][0]
    return b"linux" in (row[0] or b"").lower()


def fork_point(ask: Ask, timeline: int, left: int) -> LSN | None:
    """From the timeline's history file, for those who may read it (pg_read_server_files)."""
    name = sql.Literal(f"pg_wal/{timeline:08X}.history")
    try:
        rows = ask(sql.SQL("SELECT pg_catalog.pg_read_file({})").format(name))[0]
    except errors.Error:
        return None
    return forked_at((rows[0][0] or b"").decode(errors="replace"), left)
