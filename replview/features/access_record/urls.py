"""URLs of the access record."""

from django.urls import path

from replview.features.access_record import views as access_record

urlpatterns = [
    path("privacy/access/", access_record.access_record, name="access-record"),
    path("privacy/access/file/", access_record.as_file, name="access-record-file"),
]
