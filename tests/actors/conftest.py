"""A source database, and its transactions as a slot on it sees them."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from decoder.boundaries import Begin
from decoder.decode import decode_message
from decoder.messages import LogicalMessage
from tests.support.source_databases import SourceDatabase


class Watched:
    """A source database and a slot that tells what was committed in it."""

    def __init__(self, source: SourceDatabase) -> None:
        self.source = source
        #: The messages of the last look, as JSON.
        self.messages: list[dict[str, Any]] = []

    def transactions(self) -> list[str]:
        """Each committed since the last look: ``I`` ``U`` ``D`` ``T``, or an actor in brackets.

        ``[alice] I U``; a message without an actor is ``[]``.
        """
        with self.source.connect() as session:
            rows = session.execute(
                "SELECT data FROM pg_logical_slot_get_binary_changes('watched', NULL, NULL,"
                " 'proto_version', '1', 'publication_names', 'watched', 'messages', 'on')"
            ).fetchall()
        found: list[list[str]] = []
        self.messages = []
        for (data,) in rows:
            message = decode_message(bytes(data))
            if isinstance(message, Begin):
                found.append([])
            elif isinstance(message, LogicalMessage):
                assert message.prefix == "replview"
                document = json.loads(message.content)
                self.messages.append(document)
                found[-1].append(f"[{document.get('actor', '')}]")
            elif bytes(data)[:1] in b"IUDT":
                found[-1].append(bytes(data)[:1].decode())
        return [" ".join(words) for words in found if words]


@pytest.fixture
def watched(source: SourceDatabase) -> Iterator[Watched]:
    """A fresh database with a table ``shop``, watched from now on."""
    source.run(
        "CREATE TABLE shop (id int PRIMARY KEY, name text)",
        "CREATE PUBLICATION watched FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('watched', 'pgoutput')",
    )
    yield Watched(source)
    source.run("SELECT pg_drop_replication_slot('watched')")


def rights_to_emit(watched: Watched) -> list[str]:
    """Return the functions a role may need to execute to send messages, as GRANT names them."""
    emit = "EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, {}{})"
    later = watched.source.server.version >= 17 if hasattr(watched.source.server, "version") else 1
    return [emit.format(kind, ", boolean" if later else "") for kind in ("text", "bytea")]


@pytest.fixture
def without_right(watched: Watched) -> Iterator[str]:
    """A DSN of a role that may write to ``shop`` and may not emit messages."""
    rights = rights_to_emit(watched)
    watched.source.run(
        "DROP ROLE IF EXISTS mute",
        "CREATE ROLE mute LOGIN PASSWORD 'mute'",
        "GRANT ALL ON shop TO mute",
        *(f"REVOKE {right} FROM PUBLIC" for right in rights),
    )
    yield psycopg.conninfo.make_conninfo(watched.source.dsn, user="mute", password="mute")
    watched.source.run(
        *(f"GRANT {right} TO PUBLIC" for right in rights), "DROP OWNED BY mute", "DROP ROLE mute"
    )
