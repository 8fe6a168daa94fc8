"""Addresses of the baselines pages."""

from django.urls import path

from replview.web.views import baselines

urlpatterns = [
    path(
        "slots/<str:source_name>/<str:slot_name>/baselines/",
        baselines.baselines,
        name="baselines",
    ),
]
