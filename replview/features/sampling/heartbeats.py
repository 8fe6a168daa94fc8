"""Transactional messages to sources on which nothing is committed, where somebody asked for them.

Keepalives already move the position of an idle slot; a heartbeat is for what only a transaction
can show: that changes would come through, end to end, now.
"""

import logging
from concurrent.futures import Future, ThreadPoolExecutor

from replview.catalog.connections import writing
from replview.catalog.plan.slot_step import HEARTBEAT
from replview.catalog.problems import SourceTrouble
from replview.features.sampling import slot_heartbeats
from replview.store.connecting import orm_connection
from replview.store.dsn import DSNError, full_conninfo
from replview.store.models import Slot
from replview.store.secrets import SecretKeyChanged

log = logging.getLogger(__name__)

_DEADLINE_SECONDS = 10.0
_THREADS = 4

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="heartbeats")


def write_due() -> list["Future[None]"]:
    """Begin the heartbeats that are due, side by side; each future is done once it is written."""
    return [_pool.submit(_write, slot) for slot in slot_heartbeats.claim_due()]


def _write(slot: Slot) -> None:
    """In a thread: one message; what fails is tried again when the next is due."""
    try:
        with orm_connection():
            conninfo = full_conninfo(slot.source)
        with writing(conninfo, deadline_seconds=_DEADLINE_SECONDS) as connection:
            connection.execute(HEARTBEAT)
    except (SourceTrouble, DSNError, SecretKeyChanged) as error:
        log.warning("heartbeat of slot %s: not written (%s)", slot.pk, type(error).__name__)
