"""Addresses of the demo's *make trouble* page."""

from django.urls import path

from replview.features.trouble import views as trouble

urlpatterns = [
    path("trouble/", trouble.trouble, name="trouble"),
    path("trouble/<slug:name>/<slug:action>/", trouble.ask, name="trouble-request"),
]
