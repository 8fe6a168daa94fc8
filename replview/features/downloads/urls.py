"""The address of downloads."""

from django.urls import path

from replview.features.downloads import views as download

urlpatterns = [path("download/", download.download, name="download")]
