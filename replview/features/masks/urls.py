"""Addresses of what is kept from whom."""

from django.urls import path

from replview.features.erasure import views as erase
from replview.features.masks import views as masks

urlpatterns = [
    path("privacy/erase/", erase.erase, name="erase"),
    path("privacy/erase/<int:erasure_id>/", erase.erasure, name="erasure"),
    path("privacy/erase/<int:erasure_id>/confirm/", erase.confirm, name="erase-confirm"),
    path("privacy/erase/<int:erasure_id>/drop/", erase.drop, name="erase-drop"),
    path("privacy/erase/<int:erasure_id>/again/", erase.again, name="erase-again"),
    path("privacy/masks/", masks.masks, name="masks"),
    path("privacy/masks/<int:rule_id>/remove/", masks.remove, name="mask-remove"),
]
