"""Addresses of the store's page, and of the choices of its archive."""

from django.urls import path

from replview.features.retention import archive_views as archive
from replview.features.retention import views

urlpatterns = [
    path("store/", views.store, name="store"),
    path("store/archive/", archive.choose, name="store-archive"),
    path("store/archive/now/", archive.now, name="store-archive-now"),
    path("store/archive/off/", archive.off, name="store-archive-off"),
]
