"""Every address of the product."""

from django.urls import include, path

from replview.api.api import urls as api_urls
from replview.api.metrics import metrics

urlpatterns = [
    path("api/v1/", include((api_urls(), "api"))),
    path("metrics", metrics, name="metrics"),
    path("", include("replview.web.urls")),
]

#: A refusal names the role it needs, and who can give it.
handler403 = "replview.web.permitted.forbidden"
