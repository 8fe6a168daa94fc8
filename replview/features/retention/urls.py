"""Addresses of the store's page and of its forms."""

from django.urls import path

from replview.features.retention import views

urlpatterns = [
    path("store/", views.store, name="store"),
    path("store/archive/", views.choose, name="store-archive"),
    path("store/archive/now/", views.now, name="store-archive-now"),
    path("store/archive/off/", views.off, name="store-archive-off"),
]
