"""Addresses of the list of transactions, of its saved filters, and of one transaction."""

from django.urls import path

from replview.features.transactions import list_page as transactions
from replview.features.transactions import views as transaction
from replview.ui import saved_filters

_TRANSACTION = "transactions/<int:transaction_id>/"
_CHANGE = f"{_TRANSACTION}changes/<int:seq>/"

urlpatterns = [
    path("transactions/", transactions.transactions, name="transactions"),
    path("saved/<str:page>/", saved_filters.save, name="saved-filter-save"),
    path("saved/<int:filter_id>/delete/", saved_filters.delete, name="saved-filter-delete"),
    path(_TRANSACTION, transaction.transaction_page, name="transaction"),
    path(f"{_TRANSACTION}drawer/", transaction.drawer, name="transaction-drawer"),
    path(f"{_TRANSACTION}changes/", transaction.changes, name="transaction-changes"),
    path(f"{_TRANSACTION}coverage/", transaction.coverage, name="transaction-coverage"),
    path(f"{_TRANSACTION}undo/", transaction.undo_all, name="transaction-undo"),
    path(f"{_CHANGE}value/", transaction.value, name="transaction-value"),
    path(f"{_CHANGE}json/", transaction.as_json, name="transaction-change-json"),
    path(f"{_CHANGE}sql/", transaction.as_sql, name="transaction-change-sql"),
    path(f"{_CHANGE}undo/", transaction.undo, name="transaction-change-undo"),
]
