"""The component gallery shows every component in every state, in both themes."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from replview.access.page import GET, VIEWER, page
from replview.health.states import Level
from replview.store.fields import LSNField
from replview.store.models import Transaction
from replview.store.read.changes.records import OPERATIONS

HIDDEN = (Transaction.State.DISCARDED, Transaction.State.COPYING)
STATES = [state for state in Transaction.State if state not in HIDDEN]
COLOURS = ("surface", "bg", "sunken", "selected", "text", "text-2", "text-3",
           "accent", "ins", "upd", "del", "trn", "msg", "control")  # fmt: skip


@page(GET, role=VIEWER)
def components(request: HttpRequest) -> HttpResponse:
    """Show the gallery, with invented values only."""
    page = {
        "themes": ("light", "dark"),
        "states": [state.value for state in STATES],
        "levels": list(Level),
        "operations": OPERATIONS.items(),
        "colours": COLOURS,
        "lsn": LSNField().to_python("2/4E91A6F0"),
        "moment": timezone.now() - timedelta(minutes=16),
    }
    return render(request, "ui/gallery/components.html", page)
