"""Addresses of erasures."""

from django.urls import path

from replview.features.erasure import views as erase

_ONE = "privacy/erase/<int:erasure_id>/"

urlpatterns = [
    path("privacy/erase/", erase.erase, name="erase"),
    path(_ONE, erase.erasure, name="erasure"),
    path(f"{_ONE}confirm/", erase.confirm, name="erase-confirm"),
    path(f"{_ONE}drop/", erase.drop, name="erase-drop"),
    path(f"{_ONE}again/", erase.again, name="erase-again"),
]
