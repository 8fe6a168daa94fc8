"""This module sends a test message: a transaction with nothing but a logical message.

It shows whether changes arrive. It takes a few hundred bytes of WAL and changes no table. Any role
that may connect may send it.
"""

import json

import psycopg
from psycopg import sql

from replview.catalog.connections import Connection, reading
from replview.catalog.problems import SourceProblem, first_line

#: Seconds for connecting, sending and the answer together.
_DEADLINE_SECONDS = 10.0
#: The prefix of messages from which the receiver reads the actor.
_PREFIX = "replview"


def statement(actor: str) -> str:
    """Return the SQL that sends the message, to be copied."""
    call = sql.SQL("SELECT pg_logical_emit_message(true, {}, {});")
    return call.format(sql.Literal(_PREFIX), sql.Literal(_content(actor))).as_string(None)


def send_test_message(conninfo: str, actor: str) -> str:
    """Send the message and return its LSN. Raises ``SourceProblem``."""
    send = "SELECT pg_catalog.pg_logical_emit_message(true, %s::text, %s::text)::text"
    writable = "SELECT pg_catalog.set_config('default_transaction_read_only','off',false)"
    with reading(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
        if connection.info.server_version < 140000:
            cause = "servers before PostgreSQL 14 send no logical messages through pgoutput"
            raise SourceProblem("no_messages", cause, "Write a row into a published table instead")
        connection.execute(writable)
        try:
            row = connection.execute(send, [_PREFIX, _content(actor)]).fetchone()
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            raise _refusal(error, connection, actor) from None
    assert row is not None
    return str(row[0])


def _content(actor: str) -> str:
    return json.dumps({"actor": actor, "test": True}, ensure_ascii=False)


def _refusal(error: psycopg.Error, connection: Connection, actor: str) -> SourceProblem:
    """Return the problem for which the server refused the message."""
    message = first_line(error)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        flush = ", boolean" if connection.info.server_version >= 170000 else ""
        grant = sql.SQL(
            "GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text{}) TO {}"
        ).format(sql.SQL(flush), sql.Identifier(connection.info.user))
        cause = f"role {connection.info.user} may not send logical messages"
        return SourceProblem("missing_right", cause, grant.as_string(None))
    standby = isinstance(error, psycopg.errors.ReadOnlySqlTransaction) or "recovery" in message
    if standby:
        cause = "the server accepts no writes: it is a standby, or read-only"
        remedy = f"Run it on the primary: {statement(actor).rstrip(';')}"
        return SourceProblem("read_only", cause, remedy)
    return SourceProblem(
        "refused", f"the server refused the message, saying: {message[:200]}", "Try again"
    )
