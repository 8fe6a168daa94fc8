"""Find out who changed something, from the logical messages of a transaction.

A transactional message counts if its content is a JSON object with a string ``actor`` and any
context. With the prefix ``replview`` an application wrote it and the actor is *claimed*; with
``replview.stamp`` replview's trigger in the database wrote it and the actor is *stamped*.

Any role that may run ``pg_logical_emit_message()`` may write either, and PostgreSQL lets every role
run it unless somebody revoked that (``catalog.plan.actor_stamp`` says how far to trust a stamp
then). A transaction with a false stamp has two stamps if the trigger stamps it too. Two different
stamps mean that one is false, or that the session changed its name in between: the actor is then
*claimed*, and both stamps are kept.

A claim holds from its message to the next claim; before the first claim, the stamp holds. In a
stream a message has the xid of the whole transaction, so an abort does not say whether a claim was
in the subtransaction: that is concluded from the changes beside the claim.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from decoder.events import ChangeEvent
from decoder.messages import LogicalMessage
from replview.store.write.copy_rows import Claim, CopiedTransaction

CLAIM, STAMP = "replview", "replview.stamp"
#: Prefix → grade of the actor.
GRADES = {CLAIM: "claimed", STAMP: "stamped"}
#: Keys of the context that only stamps write: the first stamp, whole; and further stamps that
#: differ.
STAMP_KEY, OTHERS_KEY = "stamp", "other_stamps"
#: A longer message is stored like any other, but not read as an actor.
MAX_CONTENT_BYTES = 64 * 1024
#: Limit of a transaction's context; a message that would exceed it adds nothing.
MAX_CONTEXT_BYTES = 64 * 1024
MAX_ACTOR_CHARACTERS = 200
#: The trigger's stamps have some 200 bytes; a longer message is not accepted as a stamp.
_MAX_STAMP_BYTES = 4096
_MAX_OTHERS = 3
#: Beyond this number, only the first claims and the last one are kept.
MAX_CLAIMS = 50


def note_actor(row: CopiedTransaction, message: LogicalMessage, seq: int) -> None:
    """Add the actor and context of a message to its transaction, if it follows the convention.

    ``seq`` is the message's number in the transaction. A stamp never replaces what the application
    claimed: it only goes into the context, under ``stamp``.
    """
    if message.prefix not in GRADES:
        return
    row.notes += 1
    if (document := _document(message)) is None:
        return
    if message.prefix == STAMP:
        _note_stamp(row, document)
        return
    actor = document.pop("actor", None)
    for key in (STAMP_KEY, OTHERS_KEY):
        document.pop(key, None)
    context_claimed = {key: value for key, value in document.items() if key[:1] != "$"}
    # A claim whose context would exceed the limit leaves the context, and a stamp in it, as it is.
    context = {**(row.context or {}), **context_claimed}
    if not _can_be_kept(context):
        context_claimed = {}
    elif context:
        row.context = context
    if isinstance(actor, str) and actor:
        _add_claim(row, Claim(seq, actor[:MAX_ACTOR_CHARACTERS], seq > row.notes, context_claimed))


def _add_claim(row: CopiedTransaction, claim: Claim) -> None:
    claims = row.claims = row.claims or []
    if [claim.actor] * 2 == [last_claim.actor for last_claim in claims[-2:]]:
        # Keep only the first and the last of a run of claims that name the same actor.
        claims[-2].repeated = True
        claims.pop()
    elif len(claims) >= MAX_CLAIMS:
        claims[-2].actor = None
        claims.pop()
    claims.append(claim)
    row.actor, row.actor_grade = claim.actor, "claimed"


def note_neighbours(row: CopiedTransaction, changes: Sequence[ChangeEvent]) -> None:
    """Record the subtransactions of the changes before and after each claim in a stream."""
    if incomplete := [claim for claim in row.claims or () if None in (claim.before, claim.after)]:
        sent = [(change.seq, change.subxid or 0) for change in changes if change.relation]
        for claim in incomplete:
            if claim.before is None:
                earlier = [subxid for seq, subxid in sent if seq < claim.seq]
                claim.before = earlier[-1] if earlier else row.last_subxid
            claim.after = next((neighbour for neighbour in sent if neighbour[0] > claim.seq), None)
    last = next((change for change in reversed(changes) if change.relation), None)
    if last is not None:
        row.last_subxid = last.subxid or 0


def take_claims_back(row: CopiedTransaction, subxid: int, last_seq: int) -> None:
    """Remove the claims of a subtransaction that rolled back after the change ``last_seq``.

    While a subtransaction lasts, all changes are its own or of subtransactions nested in it, whose
    xids are higher. So a claim that follows a change of such an xid was in it, and a claim that
    precedes a change of any other xid was not. Any other claim is marked as uncertain
    (``perhaps``).
    """
    for claim in [
        candidate for candidate in row.claims or () if candidate.seq <= last_seq and candidate.actor
    ]:
        if (claim.before or 0) < subxid:
            seq, subxid_after = claim.after or (last_seq + 1, 0)
            claim.perhaps |= seq > last_seq or subxid_after >= subxid
        elif claim.repeated:
            claim.actor = None
        else:
            assert row.claims is not None
            row.claims.remove(claim)
            _remove_context(row, claim)


def _remove_context(row: CopiedTransaction, removed: Claim) -> None:
    context = dict(row.context or {})
    for key in removed.context.keys() & context.keys():
        remaining_values = [
            claim.context[key] for claim in row.claims or () if key in claim.context
        ]
        if remaining_values:
            context[key] = remaining_values[-1]
        elif context[key] == removed.context[key]:
            del context[key]
    row.context = context or None


def settle_actors(row: CopiedTransaction) -> None:
    """Set the actors of a transaction's changes, from the stamp and the claims that are left."""
    claims, context = row.claims or [], row.context or {}
    entries: list[dict[str, Any]] = []
    if not claims or claims[0].preceded:
        stamped = str(context.get(STAMP_KEY, {}).get("actor", ""))[:MAX_ACTOR_CHARACTERS] or None
        grade = "claimed" if OTHERS_KEY in context else "stamped"
        entries = [{"seq": 0, "actor": stamped, "grade": stamped and grade}]
    for claim in claims:
        grade = "perhaps" if claim.perhaps else "claimed"
        last = entries[-1] if entries else {"actor": ""}
        if last["actor"] != claim.actor or (last["grade"], grade) == ("perhaps", "claimed"):
            seq = claim.seq if entries else 0
            entries.append({"seq": seq, "actor": claim.actor, "grade": claim.actor and grade})
        elif last["grade"] == "stamped":
            last["grade"] = "claimed"
    row.actor, row.actor_grade = entries[-1]["actor"], entries[-1]["grade"]
    row.actors = entries if len(entries) > 1 else None


def _document(message: LogicalMessage) -> dict[str, Any] | None:
    """Return the content of a message if it is a JSON object that JSONB can store, else None."""
    # JSONB refuses \u0000, and a message must never be able to stop the receiver.
    if (
        len(message.content) > MAX_CONTENT_BYTES
        or b"\\u0000" in message.content
        or b"\0" in message.content
    ):
        return None
    try:
        document = orjson.loads(message.content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _note_stamp(row: CopiedTransaction, document: dict[str, Any]) -> None:
    actor = document.get("actor")
    if not (isinstance(actor, str) and actor) or not _can_be_kept(document, _MAX_STAMP_BYTES):
        return
    context = row.context or {}
    first = context.get(STAMP_KEY)
    if first is None:
        # A stamp is short and always kept, however much the claims add.
        row.context = {**context, STAMP_KEY: document}
        if row.actor is None:
            row.actor, row.actor_grade = actor[:MAX_ACTOR_CHARACTERS], "stamped"
    elif first != document:
        other_stamps = context.get(OTHERS_KEY, [])
        if document not in other_stamps and len(other_stamps) < _MAX_OTHERS:
            row.context = {**context, OTHERS_KEY: [*other_stamps, document]}
        if row.actor_grade == "stamped":
            row.actor_grade = "claimed"


def _can_be_kept(context: dict[str, object], limit_bytes: int = MAX_CONTEXT_BYTES) -> bool:
    """Return whether a context is short enough, and not nested too deeply for orjson to write."""
    try:
        return len(orjson.dumps(context)) <= limit_bytes
    except TypeError:
        return False
