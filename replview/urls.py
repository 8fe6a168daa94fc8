"""This module mounts every address of the product: the pages, the API, the metrics."""

from django.urls import include, path

from replview.access.page import EVERYONE, page
from replview.features.access_record import api as access_record
from replview.features.accounts import second_factor_views, sign_in, sign_in_steps
from replview.features.actors import api as actors
from replview.features.exports import api as exports
from replview.features.lake import api as lakes
from replview.features.monitoring.metrics import metrics
from replview.features.overview import views as overview
from replview.features.relations import api as relations
from replview.features.retention import api as store_api
from replview.features.rows import api as rows
from replview.features.sources import api as sources
from replview.features.transactions import api as transactions
from replview.features.transactions import search
from replview.ui import gallery
from replview.ui.api import slots
from replview.ui.api.openapi import new_api, urls_of

routers = [
    part.router
    for part in (
        slots,
        transactions,
        rows,
        relations,
        actors,
        exports,
        lakes,
        sources,
        access_record,
        store_api,
    )
]
api = new_api(routers)

#: The order is also that of the navigation entries within a group.
urlpatterns = [
    path("api/v1/", include((urls_of(api, routers), "api"))),
    path("metrics", metrics, name="metrics"),
    path("", overview.overview, name="overview"),
    # This comes before the pages of a source, because /sources/new/ is not one.
    path("", include("replview.features.onboarding.urls")),
    path("", include("replview.features.live_page.urls")),
    path("", include("replview.features.in_flight.urls")),
    path("", include("replview.features.slots.urls")),
    path("", include("replview.features.peeks.urls")),
    path("", include("replview.features.baselines.urls")),
    path("", include("replview.features.sources.urls")),
    path("", include("replview.features.transactions.urls")),
    path("", include("replview.features.rows.urls")),
    path("", include("replview.features.relations.urls")),
    path("", include("replview.features.actors.urls")),
    path("", include("replview.features.find.urls")),
    path("", include("replview.features.downloads.urls")),
    path("", include("replview.features.exports.urls")),
    path("", include("replview.features.lake.urls")),
    path("", include("replview.features.archive.urls")),
    path("", include("replview.features.history.urls")),
    path("", include("replview.features.retention.urls")),
    path("", include("replview.features.lag.urls")),
    path("", include("replview.features.alerts.urls")),
    path("", include("replview.features.trouble.urls")),
    path("", include("replview.features.masks.urls")),
    path("", include("replview.features.erasure.urls")),
    path("", include("replview.features.access_record.urls")),
    path("", include("replview.features.accounts.urls")),
    path("search/", search.search, name="search"),
    path("components/", gallery.components, name="components"),
    path("login/", page(role=EVERYONE)(sign_in.SignIn.as_view()), name="login"),
    path("login/code/", sign_in_steps.code, name="login-code"),
    path("login/second-factor/", second_factor_views.login_set_up, name="login-second-factor"),
    path("login/password/", sign_in_steps.new_password, name="login-password"),
    path("logout/", page(role=EVERYONE)(sign_in.SignOut.as_view()), name="logout"),
]

#: Answers a refusal with the role it needs, and admins who can give it.
handler403 = "replview.access.guard.forbidden"
