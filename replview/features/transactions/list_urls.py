"""Addresses of the transactions page, and of saved filters."""

from django.urls import path

from replview.features.transactions import list_views as transactions
from replview.ui import saved_filters

urlpatterns = [
    path("transactions/", transactions.transactions, name="transactions"),
    path("saved/<str:page>/", saved_filters.save, name="saved-filter-save"),
    path("saved/<int:filter_id>/delete/", saved_filters.delete, name="saved-filter-delete"),
]
