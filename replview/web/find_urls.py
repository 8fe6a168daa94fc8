"""Addresses of the find pages."""

from django.urls import path

from replview.web.views import find

urlpatterns = [
    path("find/", find.find, name="find"),
    path("find/columns/", find.columns, name="find-columns"),
]
