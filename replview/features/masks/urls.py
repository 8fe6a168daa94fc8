"""Addresses of the mask rules."""

from django.urls import path

from replview.features.masks import views as masks

urlpatterns = [
    path("privacy/masks/", masks.masks, name="masks"),
    path("privacy/masks/<int:rule_id>/remove/", masks.remove, name="mask-remove"),
]
