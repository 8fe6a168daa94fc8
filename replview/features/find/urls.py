"""Addresses of the find pages."""

from django.urls import path

from replview.features.find import views as find

urlpatterns = [
    path("find/", find.find, name="find"),
    path("find/columns/", find.columns, name="find-columns"),
]
