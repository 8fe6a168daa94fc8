"""Addresses of what the archive answers, and of its choices."""

from django.urls import path

from replview.features.archive import views as archive
from replview.features.retention import archive_views as archive_choices

urlpatterns = [
    path("archive/transaction/", archive.transaction, name="archive-transaction"),
    path("archive/row/", archive.row, name="archive-row"),
    path("store/archive/", archive_choices.choose, name="store-archive"),
    path("store/archive/now/", archive_choices.now, name="store-archive-now"),
    path("store/archive/off/", archive_choices.off, name="store-archive-off"),
]
