"""Addresses of sources, and of what is done to them and to slots."""

from django.urls import path

from replview.features.slots import act_views as slot_acts
from replview.features.slots import column_views as slot_columns
from replview.features.sources import act_views as source_acts
from replview.features.sources import views as sources

_SOURCE = "sources/<str:source_name>/"
_SLOT = "slots/<str:source_name>/<str:slot_name>/"

urlpatterns = [
    path("sources/", sources.sources, name="sources"),
    path("managed/", slot_acts.managed, name="managed"),
    path(_SOURCE, sources.source, name="source"),
    path(f"{_SOURCE}publications/", sources.publications, name="source-publications"),
    path(f"{_SOURCE}credentials/", source_acts.credentials, name="source-credentials"),
    path(f"{_SOURCE}move/", source_acts.move, name="source-move"),
    path(f"{_SOURCE}rename/", source_acts.rename, name="source-rename"),
    path(f"{_SOURCE}remove/", source_acts.remove, name="source-remove"),
    path(f"{_SLOT}start/", slot_acts.start, name="slot-start"),
    path(f"{_SLOT}stop/", slot_acts.stop, name="slot-stop"),
    path(f"{_SLOT}tables/", slot_acts.tables, name="slot-tables"),
    path(f"{_SLOT}columns/", slot_columns.columns, name="slot-columns"),
    path(f"{_SLOT}adopt/", slot_acts.adopt, name="slot-adopt"),
    path(f"{_SLOT}drop/", slot_acts.drop, name="slot-drop"),
]
