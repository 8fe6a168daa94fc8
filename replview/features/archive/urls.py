"""Addresses of the pages that show history from the archive."""

from django.urls import path

from replview.features.archive import views as archive

urlpatterns = [
    path("archive/transaction/", archive.transaction, name="archive-transaction"),
    path("archive/row/", archive.row, name="archive-row"),
]
