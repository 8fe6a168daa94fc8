"""Ending tasks for good."""

import asyncio
from typing import Any


async def end(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancel tasks and wait for their end; again, where a library swallowed the first cancel."""
    running = {task for task in tasks if task is not None and not task.done()}
    while running:
        for task in running:
            task.cancel()
        done, running = await asyncio.wait(running, timeout=0.2)
        for task in done:
            if not task.cancelled():
                task.exception()  # looked at, so that nobody warns of it
