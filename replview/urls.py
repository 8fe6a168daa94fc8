"""Every address of the product."""

from django.urls import include, path

urlpatterns = [
    path("", include("replview.web.urls")),
]
