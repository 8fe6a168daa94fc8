"""Claims and stamps name a transaction's actor, and stamps may contradict each other."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from decoder.messages import LogicalMessage
from decoder.scalars import LSN
from replview.receiver.actors import MAX_CLAIMS, MAX_CONTEXT_BYTES, note_actor, settle_actors
from replview.store.write.copy_rows import CopiedTransaction

STAMP = {"actor": "app", "application_name": "till", "client_address": "10.0.0.7"}


def told(*messages: tuple[str, Any]) -> CopiedTransaction:
    """A transaction with these messages: prefix and content."""
    row = CopiedTransaction(1, 1, 0, 700, "receiving")
    for seq, (prefix, content) in enumerate(messages, start=1):
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        message = LogicalMessage(transactional=True, lsn=LSN(1), prefix=prefix, content=text)
        note_actor(row, message, seq)
    if row.claims is not None:
        settle_actors(row)
    return row


def test_a_stamp_names_the_actor_where_nobody_claims() -> None:
    row = told(("replview.stamp", STAMP))

    assert (row.actor, row.actor_grade) == ("app", "stamped")
    assert row.context == {"stamp": STAMP}


@pytest.mark.parametrize("stamp_first", [True, False])
def test_a_claim_is_kept_and_the_stamp_stays_beside_it(stamp_first: bool) -> None:
    messages = [("replview.stamp", STAMP), ("replview", {"actor": "alice", "path": "/pay"})]
    row = told(*(messages if stamp_first else messages[::-1]))

    assert (row.actor, row.actor_grade) == ("alice", "claimed")
    assert row.context == {"stamp": STAMP, "path": "/pay"}


def test_the_last_claim_counts() -> None:
    row = told(("replview", {"actor": "alice"}), ("replview", {"actor": "bob"}))

    assert row.actor == "bob"
    assert [part["actor"] for part in row.actors or ()] == ["alice", "bob"]


def test_of_too_many_claims_the_first_and_the_last_are_kept() -> None:
    row = told(*(("replview", {"actor": f"user {n}"}) for n in range(1000)))

    assert row.actor == "user 999"
    parts = row.actors or []
    assert [part["actor"] for part in parts] == [
        *(f"user {n}" for n in range(MAX_CLAIMS - 2)), None, "user 999",
    ]  # fmt: skip
    assert [part["seq"] for part in parts[-2:]] == [MAX_CLAIMS - 1, 1000]


def test_a_claim_said_again_and_again_is_one() -> None:
    row = told(*(("replview", {"actor": "alice"}) for _ in range(1000)))

    assert (row.actor, row.actors) == ("alice", None)


def test_a_stamp_written_again_after_a_savepoint_is_no_contradiction() -> None:
    row = told(("replview.stamp", STAMP), ("replview.stamp", STAMP))

    assert (row.actor_grade, row.context) == ("stamped", {"stamp": STAMP})


@pytest.mark.parametrize("forged_first", [True, False])
def test_stamps_that_differ_are_only_a_claim_and_both_are_kept(forged_first: bool) -> None:
    forged = {"actor": "root"}
    stamps = [forged, STAMP] if forged_first else [STAMP, forged]
    row = told(*(("replview.stamp", stamp) for stamp in stamps))

    assert row.actor_grade == "claimed"
    assert row.context == {"stamp": stamps[0], "other_stamps": [stamps[1]]}


def test_a_claim_can_write_nothing_into_the_places_of_stamps() -> None:
    row = told(("replview", {"actor": "alice", "stamp": {"actor": "app"}, "other_stamps": [],
                             "$commit_time": "x", "path": "/"}))  # fmt: skip

    assert row.context == {"path": "/"}


def test_a_claim_cannot_crowd_the_stamp_out() -> None:
    filling = {"actor": "alice", "note": "x" * (MAX_CONTEXT_BYTES - 40)}
    row = told(("replview", filling), ("replview.stamp", STAMP))

    assert row.context is not None
    assert row.context["stamp"] == STAMP


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b'{"actor": "a\\u0000b"}', b'{"actor": 7}', b'{"actor": ""}',
     b'{"actor": "x", "a": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"actor":"' + b"x" * 70000],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["replview", "replview.stamp"])
def test_what_does_not_follow_the_convention_names_nobody(prefix: str, content: bytes) -> None:
    row = told((prefix, content))

    assert row.actor is None or (row.actor, row.context) == ("x", None)


@pytest.mark.pg(14)
def test_the_trigger_and_an_application_on_a_real_source(source, record) -> None:
    source.run("CREATE TABLE orders (id int PRIMARY KEY)")
    call_command("actor", "install", source.dsn, "--table", "orders", "--yes", verbosity=0)
    recording = record(source)
    claim = "SELECT pg_logical_emit_message(true, 'replview', '{\"actor\": \"alice\"}')"
    forge = "SELECT pg_logical_emit_message(true, 'replview.stamp', '{\"actor\": \"root\"}')"

    source.run(
        "INSERT INTO orders VALUES (1)",
        f"BEGIN; {claim}; INSERT INTO orders VALUES (2); COMMIT",
        f"BEGIN; {forge}; INSERT INTO orders VALUES (3); COMMIT",
    )
    recording.caught_up()

    stamped, claimed, forged = recording.transactions()
    user = source.server.user
    assert (stamped.actor, stamped.actor_grade) == (user, "stamped")
    assert (claimed.actor, claimed.actor_grade) == ("alice", "claimed")
    assert claimed.context["stamp"]["actor"] == user
    assert (forged.actor, forged.actor_grade) == ("root", "claimed")
    assert [stamp["actor"] for stamp in forged.context["other_stamps"]] == [user]
