"""Who changed something, as a logical message tells.

The convention: a transactional message with the prefix ``replview`` (an application's own word:
*claimed*) or ``replview.stamp`` (written by replview's trigger in the database: *stamped*) whose
content is a JSON object with a string ``actor`` and any context.

Any role that may run ``pg_logical_emit_message()`` may write either, and PostgreSQL lets every role
unless somebody revoked it (``catalog.plan.actor_stamp`` tells what a stamp is worth then). A false
stamp in a transaction that the trigger stamps too stands beside the true one. Two stamps that
differ are evidence of that, or of a session that changed its name under way: the actor is then
*claimed*, and what both said is kept.
"""

from typing import Any

import orjson

from decoder.messages import LogicalMessage
from replview.store.write.copy_rows import TransactionRow

CLAIM, STAMP = "replview", "replview.stamp"
#: Prefix → how well the actor is known.
GRADES = {CLAIM: "claimed", STAMP: "stamped"}
#: Keys of the context that only stamps write: the first one whole, actor and all; and, where stamps
#: disagree, what the others said.
STAMP_KEY, OTHERS_KEY = "stamp", "other_stamps"
#: A longer message is stored like any other, but not read as an actor.
MAX_CONTENT_BYTES = 64 * 1024
#: What a transaction's messages add to its context beyond this is not kept there.
MAX_CONTEXT_BYTES = 64 * 1024
MAX_ACTOR_CHARACTERS = 200
#: A stamp of the trigger has some 200 bytes; what is longer is none.
_MAX_STAMP_BYTES = 4096
_MAX_OTHERS = 3


def note_actor(row: TransactionRow, message: LogicalMessage) -> None:
    """Take the actor and context from a message, if it follows the convention.

    A stamp never replaces what the application claimed: it is then in the context, under ``stamp``.
    Of several claims the last one counts.
    """
    if message.prefix not in GRADES or (document := _document(message)) is None:
        return
    if message.prefix == STAMP:
        _stamp(row, document)
        return
    actor = document.pop("actor", None)
    for key in (STAMP_KEY, OTHERS_KEY):
        document.pop(key, None)
    claimed = {key: value for key, value in document.items() if key[:1] != "$"}
    # What is ours stays, however much else is said.
    context = {**(row.context or {}), **claimed}
    if context and _can_be_kept(context):
        row.context = context
    if isinstance(actor, str) and actor:
        row.actor, row.actor_grade = actor[:MAX_ACTOR_CHARACTERS], "claimed"


def _document(message: LogicalMessage) -> dict[str, Any] | None:
    """The content, if it is a JSON object that JSONB can keep."""
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


def _stamp(row: TransactionRow, document: dict[str, Any]) -> None:
    actor = document.get("actor")
    if not (isinstance(actor, str) and actor) or not _can_be_kept(document, _MAX_STAMP_BYTES):
        return
    context = row.context or {}
    first = context.get(STAMP_KEY)
    if first is None:
        # A stamp is short and always kept: no claim can crowd it out.
        row.context = {**context, STAMP_KEY: document}
        if row.actor is None:
            row.actor, row.actor_grade = actor[:MAX_ACTOR_CHARACTERS], "stamped"
    elif first != document:
        others = context.get(OTHERS_KEY, [])
        if document not in others and len(others) < _MAX_OTHERS:
            row.context = {**context, OTHERS_KEY: [*others, document]}
        if row.actor_grade == "stamped":
            row.actor_grade = "claimed"


def _can_be_kept(context: dict[str, object], limit_bytes: int = MAX_CONTEXT_BYTES) -> bool:
    """Short enough; and orjson reads documents that are too deep for it to write."""
    try:
        return len(orjson.dumps(context)) <= limit_bytes
    except TypeError:
        return False
