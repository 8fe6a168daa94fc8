"""What the plan and doctor say, on a page: with the place where it is chosen there."""

import re
from collections.abc import Mapping

#: What reading the rows that are there already costs.
BASELINE_COST = (
    "Each table is read once from beginning to end by one walsender, under ACCESS SHARE: reading "
    "and writing go on, but ALTER TABLE, TRUNCATE and VACUUM FULL wait until it is read, and so "
    "does vacuum for rows that die meanwhile (the snapshot holds back xmin). To begin, a temporary "
    "replication slot is made, and dropped at once: it needs a free slot, and waits up to five "
    "minutes, holding WAL, for the transactions that are open on the server, prepared ones too."
)
#: Fields of a ``SlotRequest`` → the step in which a new slot's is chosen.
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


def sentence(text: str) -> str:
    """Begun with a capital letter, unless its first word is a name: ``max_slot_wal_keep_size``,
    ``replview``.
    """
    return text[:1].upper() + text[1:] if re.match(r"(?!replview)[a-z]+(?![\w.])", text) else text
