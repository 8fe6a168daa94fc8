"""URLs of the actors pages."""

from django.urls import path

from replview.features.actors import views as actors

urlpatterns = [
    path("actors/", actors.actors, name="actors"),
    path("actor/", actors.actor, name="actor"),
]
