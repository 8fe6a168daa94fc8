"""Addresses of the download pages."""

from django.urls import path

from replview.web.views import download

urlpatterns = [path("download/", download.download, name="download")]
