"""The demo's troubles in words: what will happen, and where to see it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from replview.store.models import AlertRule

#: The demo's own source and slot.
_SOURCE, _SLOT = "shop", "replview"

_K = AlertRule.Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What the page says of one trouble."""

    title: str
    #: What will happen, in two sentences at most.
    about: str
    #: The kinds of rule that see it.
    kinds: Sequence[str]
    #: Pages to look at: word, name of its address, further parts of it.
    look: Sequence[tuple[str, str, tuple[str, ...]]]
    #: What its end does, after *At the end:*.
    ends: str


_SLOT_PAGE = ("its slot", "slot", (_SOURCE, _SLOT))
_SLOTS = ("all slots", "slots", ())
_LAG = ("its lag", "lag", ())
_ALERTS = ("alerts", "alerts", ())
_FLIGHT = ("what is in flight", "in-flight", ())

WORDS: dict[str, Words] = {
    "paused-receiver": Words(
        title="Pause the receiver",
        about="The process that reads the slot is stopped by a signal. To the server it is still "
        "connected; it gives no sign of life, and the slot retains WAL.",
        kinds=(_K.RECEIVER_DOWN,),
        look=(_SLOT_PAGE, _LAG, _ALERTS),
        ends="it goes on where it was: nothing is lost.",
    ),
    "prepared-transaction": Words(
        title="Leave a prepared transaction",
        about="Two notes are prepared as trouble_forgotten, and nobody will ever decide. It holds "
        "WAL, locks and vacuum.",
        kinds=(_K.PREPARED_AGE,),
        look=(_FLIGHT, _SLOT_PAGE, _ALERTS),
        ends="it is rolled back.",
    ),
    "long-transaction": Words(
        title="Leave a transaction open",
        about="A session writes a note and then waits, idle in transaction. Every slot must keep "
        "WAL from its beginning on.",
        kinds=(_K.LONG_TRANSACTION,),
        look=(_FLIGHT, _SLOT_PAGE, _ALERTS),
        ends="it is rolled back, its session closed.",
    ),
    "flood": Words(
        title="Flood it",
        about="The whole price list is repriced, again and again, faster than it can be stored. "
        "The slot comes to retain some 24 MB and is kept there; at most 300 MB are written.",
        kinds=(_K.RETAINED_WAL, _K.LAG),
        look=(_LAG, _SLOT_PAGE, _ALERTS),
        ends="it is over once the receiver has caught up.",
    ),
    "idle-slot": Words(
        title="Forget a slot",
        about="A slot debezium_billing appears that nobody reads, and retains 1.6 MB of WAL more "
        "every second.",
        kinds=(_K.SLOT_INACTIVE,),
        look=(_SLOTS, _LAG, _ALERTS),
        ends="it is dropped.",
    ),
    "lost-slot": Words(
        title="Lose a slot",
        about="A slot debezium_orders is left behind until the server removes WAL that it still "
        "needs: its limit is set low for a moment. replview's own slot is never in danger.",
        kinds=(_K.SLOT_LOST,),
        look=(_SLOTS, _LAG, _ALERTS),
        ends="it is dropped, the limit is as before.",
    ),
    "schema-change": Words(
        title="Change a table",
        about="The table receipts gets a column cashier: whoever reads it downstream may not know "
        "it.",
        kinds=(_K.SCHEMA_CHANGE,),
        look=(("its relations", "relations", ()), _SLOT_PAGE, _ALERTS),
        ends="the column is dropped, which is one more change. The alert stays until it is seen.",
    ),
    "poison-change": Words(
        title="Write what cannot be stored",
        about="The store refuses one row of audit_notes. The receiver stops before it, and skips "
        "nothing: somebody must decide.",
        kinds=(_K.POISON_CHANGE,),
        look=(_SLOT_PAGE, _LAG, _ALERTS),
        ends="the store accepts the row, and it is tried again.",
    ),
}


def links(words: Words) -> list[tuple[str, str]]:
    """Word and address of each page to look at."""
    return [(word, reverse(name, args=args)) for word, name, args in words.look]
