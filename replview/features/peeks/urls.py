"""Addresses of a server's slots and of peeks into them."""

from django.urls import path

from replview.features.peeks import views as peeks

_SOURCE = "sources/<str:source_name>/slots/"

urlpatterns = [
    path(_SOURCE, peeks.source_slots, name="source-slots"),
    path(f"{_SOURCE}<str:slot_name>/peek/", peeks.ask, name="peek-ask"),
    path("peeks/<int:peek_id>/", peeks.peek, name="peek"),
]
