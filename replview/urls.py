"""Every address of the product."""

from django.urls import include, path

from replview.api.api import urls as api_urls

urlpatterns = [
    path("api/v1/", include((api_urls(), "api"))),
    path("", include("replview.web.urls")),
]
