"""URLs of the baselines page."""

from django.urls import path

from replview.features.baselines import views as baselines

urlpatterns = [
    path(
        "slots/<str:source_name>/<str:slot_name>/baselines/", baselines.baselines, name="baselines"
    )
]
