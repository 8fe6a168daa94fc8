"""Addresses of the pages."""

from django.contrib.auth import views as auth_views
from django.urls import include, path

from replview.web.views import gallery, overview, search, sources, store

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("", include("replview.web.live_urls")),
    path("", include("replview.web.in_flight_urls")),
    path("", include("replview.web.slot_urls")),
    path("", include("replview.web.baselines_urls")),
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
    path("store/", store.store, name="store"),
    path("sources/", sources.sources, name="sources"),
    path("search/", search.search, name="search"),
    path("shell/health/", overview.shell_health, name="shell-health"),
    path("components/", gallery.components, name="components"),
    path("login/", auth_views.LoginView.as_view(), name="login"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
]
