"""A watch begun in a browser lasts as long as its user has its live page open."""

import asyncio

from channels.db import DatabaseSyncToAsync

from replview.jobs import drafts

#: Often enough for a watch that ends after a minute without.
SAW_SECONDS = 10.0

_saw = DatabaseSyncToAsync(drafts.saw, thread_sensitive=False)


async def keep_watched(slot_id: int, user_id: int | None) -> None:
    """Say so from time to time; returns at once for any other slot, and when the watch is over."""
    while user_id is not None and await _saw(slot_id, user_id):
        await asyncio.sleep(SAW_SECONDS)
