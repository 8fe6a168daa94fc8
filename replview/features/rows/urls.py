"""Addresses of the row history pages."""

from django.urls import path

from replview.features.rows import views as row_history

urlpatterns = [
    path("rows/", row_history.rows, name="row-history"),
    path(
        "rows/change/<int:transaction_id>/<int:seq>/", row_history.change, name="row-history-change"
    ),
]
