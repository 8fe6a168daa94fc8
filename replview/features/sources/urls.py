"""Addresses of sources and of acts on them."""

from django.urls import path

from replview.features.sources import act_views as acts
from replview.features.sources import views as sources

_SOURCE = "sources/<str:source_name>/"

urlpatterns = [
    path("sources/", sources.sources, name="sources"),
    path(_SOURCE, sources.source, name="source"),
    path(f"{_SOURCE}publications/", sources.publications, name="source-publications"),
    path(f"{_SOURCE}credentials/", acts.credentials, name="source-credentials"),
    path(f"{_SOURCE}move/", acts.move, name="source-move"),
    path(f"{_SOURCE}rename/", acts.rename, name="source-rename"),
    path(f"{_SOURCE}remove/", acts.remove, name="source-remove"),
]
