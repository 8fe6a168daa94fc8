"""Who changed something, as a logical message tells.

The convention: a transactional message with the prefix ``replview`` (an application's own word:
*claimed*) or ``replview.stamp`` (written by a trigger in the database: *stamped*) whose content is
a JSON object with a string ``actor`` and any context.
"""

import orjson

from decoder.messages import LogicalMessage
from replview.store.transaction_rows import TransactionRow

#: Prefix → how well the actor is known.
GRADES = {"replview": "claimed", "replview.stamp": "stamped"}
#: A longer message is stored like any other, but not read as an actor.
MAX_CONTENT_BYTES = 64 * 1024
#: What a transaction's messages add to its context beyond this is not kept there.
MAX_CONTEXT_BYTES = 64 * 1024
MAX_ACTOR_CHARACTERS = 200


def note_actor(row: TransactionRow, message: LogicalMessage) -> None:
    """Take the actor and context from a message, if it follows the convention.

    A stamp never replaces what the application claimed: both are then in the context.
    """
    grade = GRADES.get(message.prefix)
    # JSONB refuses \u0000, and a message must never be able to stop the receiver.
    if (
        grade is None
        or len(message.content) > MAX_CONTENT_BYTES
        or b"\\u0000" in message.content
        or b"\0" in message.content
    ):
        return
    try:
        document = orjson.loads(message.content)
    except orjson.JSONDecodeError:
        return
    if not isinstance(document, dict):
        return
    actor = document.pop("actor", None)
    context = {**(row.context or {}), **document}
    if context and _can_be_kept(context):
        row.context = context
    if isinstance(actor, str) and actor and (row.actor is None or grade == "claimed"):
        row.actor, row.actor_grade = actor[:MAX_ACTOR_CHARACTERS], grade


def _can_be_kept(context: dict[str, object]) -> bool:
    """Short enough; and orjson reads documents that are too deep for it to write."""
    try:
        return len(orjson.dumps(context)) <= MAX_CONTEXT_BYTES
    except TypeError:
        return False
