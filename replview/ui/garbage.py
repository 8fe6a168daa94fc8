"""Keeps the garbage collector away from what a web process holds all its life.

Two hundred thousand objects of modules, models and addresses never become garbage. To look through
all of them, as a full collection does every few hundred requests or so, takes 120 ms of some
request.
"""

import gc

from django.urls import get_resolver


def spare_what_stays() -> None:
    """Import all pages now, and leave out of all collections what there is: at a process's start,
    before its first request.
    """
    # Loads the addresses, and with them the views.
    get_resolver().url_patterns  # noqa: B018
    gc.collect()
    gc.freeze()
