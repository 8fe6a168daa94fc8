"""Addresses of the pages."""

from django.contrib.auth import views as auth_views
from django.urls import include, path

from replview.web import signing_in
from replview.web.views import gallery, overview, search, store

urlpatterns = [
    path("", overview.overview, name="overview"),
    # Before those of a source: /sources/new/ is none.
    path("", include("replview.web.onboarding_urls")),
    path("", include("replview.web.live_urls")),
    path("", include("replview.web.in_flight_urls")),
    path("", include("replview.web.slot_urls")),
    path("", include("replview.web.baselines_urls")),
    path("", include("replview.web.managing_urls")),
    path("", include("replview.web.transactions_urls")),
    path("", include("replview.web.transaction_urls")),
    path("", include("replview.web.row_history_urls")),
    path("", include("replview.web.relations_urls")),
    path("", include("replview.web.actors_urls")),
    path("", include("replview.web.find_urls")),
    path("", include("replview.web.download_urls")),
    path("", include("replview.web.exports_urls")),
    path("", include("replview.web.archive_urls")),
    path("", include("replview.web.history_urls")),
    path("", include("replview.web.alerts_urls")),
    path("", include("replview.web.lag_urls")),
    path("", include("replview.web.trouble_urls")),
    path("", include("replview.web.privacy_urls")),
    path("", include("replview.web.access_urls")),
    path("", include("replview.web.accounts_urls")),
    path("store/", store.store, name="store"),
    path("search/", search.search, name="search"),
    path("shell/health/", overview.shell_health, name="shell-health"),
    path("components/", gallery.components, name="components"),
    path("login/", signing_in.SignIn.as_view(), name="login"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
]
