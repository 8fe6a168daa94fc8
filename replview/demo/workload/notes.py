"""Notes, sensor readings, and logical messages that come without any change."""

from __future__ import annotations

import json

from replview.demo.workload.scenarios import paced
from replview.demo.workload.session import Session

INSERT_NOTE = "INSERT INTO audit_notes (subject, author, body) VALUES (%s, %s, %s)"


@paced(weight=4, shows="an insert under FULL, one in five with a large text")
def write_note(session: Session) -> None:
    rng = session.rng
    length = rng.randint(8_500, 11_000) if rng.random() < 0.2 else rng.randint(40, 300)
    body = session.material.words(rng, at_least=length)
    with session.transaction():
        actor = session.claim("/notes/new")
        session.execute(INSERT_NOTE, (f"order {rng.randint(1, 900)}", actor, body))


@paced(weight=1, shows="under FULL, a large text unchanged: the old row carries it, the new not")
def resolve_long_note(session: Session) -> None:
    with session.transaction():
        note_id = session.value(
            "SELECT id FROM audit_notes WHERE length(body) > 8000"
            " ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        actor = session.claim(f"/notes/{note_id or 'new'}")
        if note_id is None:
            body = session.material.words(session.rng, at_least=9_000)
            session.execute(INSERT_NOTE, ("stock", actor, body))
        else:
            session.execute(
                "UPDATE audit_notes SET resolved = NOT resolved WHERE id = %s", (note_id,)
            )


@paced(weight=1, shows="a delete under FULL: the whole old row is sent")
def delete_note(session: Session) -> None:
    with session.transaction():
        session.claim("/notes/delete")
        session.execute(
            "DELETE FROM audit_notes WHERE id ="
            " (SELECT id FROM audit_notes ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
        )


@paced(weight=4, shows="inserts in a second schema, into a table under NOTHING")
def read_sensors(session: Session) -> None:
    rng = session.rng
    with session.transaction():
        for device in rng.sample(range(16), rng.randint(1, 3)):
            session.execute(
                "INSERT INTO warehouse.sensor_readings (device, celsius, humidity, door_open)"
                " VALUES (%s, %s, %s, %s)",
                (
                    f"08:00:2b:01:02:{device:02x}",
                    round(rng.gauss(18, 2), 2),
                    round(rng.uniform(30, 60), 1) if rng.random() < 0.9 else None,
                    rng.random() < 0.1,
                ),
            )


@paced(weight=1, shows="a transaction that is a message and nothing else")
def announce(session: Session) -> None:
    with session.transaction():
        session.claim("/announcements", actor=session.rng.choice(("alice", "emil")))


@paced(weight=0.6, shows="a message outside any transaction: it survives a rollback")
def open_till(session: Session) -> None:
    """The transaction around it is rolled back; the message has long been sent."""
    content = json.dumps({"till": f"berlin-{session.rng.randint(1, 6)}", "event": "drawer opened"})
    with session.transaction(discard=True):
        session.execute("SELECT pg_logical_emit_message(false, 'till', %s)", (content,))
