"""Build the sentences of pages: a state with its cause and next step, and remedies of a plan.

``PLACES`` says where on a page a field of a request is chosen.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from django.utils.text import capfirst

#: The cost of reading the existing rows of tables.
BASELINE_COST = (
    "Each table is read once from beginning to end by one walsender, under ACCESS SHARE: reading "
    "and writing go on, but ALTER TABLE, TRUNCATE and VACUUM FULL wait until it is read, and so "
    "does vacuum for rows that die meanwhile (the snapshot holds back xmin). To begin, a temporary "
    "replication slot is made, and dropped at once: it needs a free slot, and waits up to five "
    "minutes, holding WAL, for the transactions that are open on the server, prepared ones too."
)
#: Field of a ``SlotRequest`` → the step of adding a slot in which it is chosen.
PLACES: Mapping[str, str] = {
    "adopt": "on the source's page, under its slots",
    "all_tables": "in the step Tables",
    "exclude": "in the step Columns",
    "failover": "Survive a failover, in the step Options",
    "heartbeat_seconds": "in the step Options",
    "interface": "in the step Options, under How it is read",
    "mask": "in the step Columns",
    "publications": "in the step Tables",
    "schemas": "in the step Tables",
    "tables": "in the step Tables",
    "wal_budget_bytes": "in the step Options",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A level, the state, its cause, and the next step."""

    level: str
    title: str
    cause: str = ""
    next: str = ""
    #: True when the page's action can be done now.
    ready: bool = False


def as_next(text: str) -> str:
    """Return a remedy as the end of a sentence that begins with *Next:*."""
    return f"{text[0].lower()}{text[1:].rstrip('.')}." if text else ""


class ExplainedError(Protocol):
    """An error with a cause and a remedy."""

    cause: str
    remedy: str


def refusal(level: str, title: str, refused: ExplainedError) -> Sentence:
    """Return the sentence of a refused action: what, why, and what to do instead."""
    return Sentence(
        level=level, title=title, cause=f"{refused.cause}.", next=as_next(refused.remedy)
    )


def sentence(text: str) -> str:
    """Capitalize a sentence unless it begins with a name, such as ``max_slot_wal_keep_size``."""
    return capfirst(text) if re.match(r"(?!replview)[a-z]+(?![\w.])", text) else text
