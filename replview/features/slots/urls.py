"""Addresses of slots and of acts on them."""

from django.urls import path

from replview.features.slots import act_views as acts
from replview.features.slots import quarantine_views as quarantine
from replview.features.slots import retention_views as keeping
from replview.features.slots import views as slot

_SLOT = "slots/<str:source_name>/<str:slot_name>/"
_QUARANTINE = f"{_SLOT}quarantine/<int:quarantine_id>/"

urlpatterns = [
    path("slots/", slot.slots, name="slots"),
    path("managed/", acts.managed, name="managed"),
    path(_SLOT, slot.slot, name="slot"),
    path(f"{_SLOT}budget/", slot.change, name="slot-budget"),
    path(f"{_SLOT}keeping/", keeping.keeping, name="slot-keeping"),
    path(f"{_SLOT}start/", acts.start, name="slot-start"),
    path(f"{_SLOT}stop/", acts.stop, name="slot-stop"),
    path(f"{_SLOT}tables/", acts.tables, name="slot-tables"),
    path(f"{_SLOT}columns/", acts.columns, name="slot-columns"),
    path(f"{_SLOT}adopt/", acts.adopt, name="slot-adopt"),
    path(f"{_SLOT}drop/", acts.drop, name="slot-drop"),
    path(_QUARANTINE, quarantine.decision, name="quarantine"),
    path(f"{_QUARANTINE}raw/", quarantine.raw, name="quarantine-raw"),
    path(f"{_QUARANTINE}raw.bin", quarantine.raw_file, name="quarantine-file"),
]
