"""Addresses of the export pages."""

from django.urls import path

from replview.features.exports import views as exports

urlpatterns = [
    path("exports/", exports.exports_page, name="exports"),
    path("exports/new/", exports.new, name="export-new"),
    path("exports/test/", exports.test_target, name="export-test"),
    path("exports/all/", exports.all_exports, name="exports-all"),
    path("exports/allowed/", exports.allow, name="exports-allow"),
    path("exports/<int:export_id>/", exports.export, name="export"),
    path("exports/<int:export_id>/cancel/", exports.cancel, name="export-cancel"),
    path("exports/<int:export_id>/files/", exports.files, name="export-files"),
    path("exports/<int:export_id>/log/", exports.log, name="export-log"),
]
