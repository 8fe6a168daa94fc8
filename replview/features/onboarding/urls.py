"""Addresses of onboarding, step by step, and of a source's check."""

from django.urls import path

from replview.features.onboarding import step_views
from replview.features.onboarding import views as onboarding

_DRAFT = "sources/new/<int:draft_id>/"

urlpatterns = [
    path("sources/new/", onboarding.start, name="source-new"),
    path("sources/new/<slug:kind>/", onboarding.begin, name="source-new-kind"),
    path(f"{_DRAFT}connection/", onboarding.connection, name="draft-connection"),
    path(f"{_DRAFT}check/", step_views.check, name="draft-check"),
    path(f"{_DRAFT}tables/", step_views.tables, name="draft-tables"),
    path(f"{_DRAFT}columns/", step_views.columns, name="draft-columns"),
    path(f"{_DRAFT}options/", step_views.options, name="draft-options"),
    path(f"{_DRAFT}review/", step_views.review, name="draft-review"),
    path(f"{_DRAFT}progress/", onboarding.progress, name="draft-progress"),
    path(f"{_DRAFT}cancel/", onboarding.cancel, name="draft-cancel"),
    path("sources/<str:source_name>/doctor/", onboarding.doctor, name="source-doctor"),
]
