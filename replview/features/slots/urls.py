"""Addresses of a slot's page, of all slots of a server, and of looks into them."""

from django.urls import path

from replview.features.peeks import views as peeks
from replview.features.slots import budget_views as budget
from replview.features.slots import list_views as slots
from replview.features.slots import quarantine_views as quarantine
from replview.features.slots import retention_views as keeping
from replview.features.slots import views as slot

_QUARANTINE = "slots/<str:source_name>/<str:slot_name>/quarantine/<int:quarantine_id>/"

urlpatterns = [
    path("slots/", slots.slots, name="slots"),
    path("slots/<str:source_name>/<str:slot_name>/", slot.slot, name="slot"),
    path("slots/<str:source_name>/<str:slot_name>/budget/", budget.change, name="slot-budget"),
    path("slots/<str:source_name>/<str:slot_name>/keeping/", keeping.keeping, name="slot-keeping"),
    path(_QUARANTINE, quarantine.decision, name="quarantine"),
    path(f"{_QUARANTINE}raw/", quarantine.raw, name="quarantine-raw"),
    path(f"{_QUARANTINE}raw.bin", quarantine.raw_file, name="quarantine-file"),
    path("sources/<str:source_name>/slots/", peeks.source_slots, name="source-slots"),
    path("sources/<str:source_name>/slots/<str:slot_name>/peek/", peeks.ask, name="peek-ask"),
    path("peeks/<int:peek_id>/", peeks.peek, name="peek"),
]
