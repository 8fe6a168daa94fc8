"""Addresses of the relations pages."""

from django.urls import path

from replview.features.relations import views as relations

urlpatterns = [
    path("relations/", relations.relations, name="relations"),
    path("relations/<int:relation_id>/", relations.relation, name="relation"),
    path("relations/<int:relation_id>/evidence/", relations.evidence, name="relation-evidence"),
    path("relations/<int:relation_id>/now/", relations.now, name="relation-now"),
    path("relations/versions/<int:version_id>/", relations.version, name="relation-version"),
]
