"""Addresses of the pages of lakes."""

from django.urls import path

from replview.features.lake import views as lake

urlpatterns = [
    path("lakes/", lake.lakes, name="lakes"),
    path("lakes/new/", lake.new, name="lake-new"),
    path("lakes/<int:lake_id>/", lake.one_lake, name="lake"),
    path("lakes/<int:lake_id>/run/", lake.run, name="lake-run"),
    path("lakes/<int:lake_id>/cancel/", lake.cancel, name="lake-cancel"),
    path("lakes/<int:lake_id>/schedule/", lake.schedule, name="lake-schedule"),
    path("lakes/<int:lake_id>/remove/", lake.removal, name="lake-remove"),
    path("lakes/<int:lake_id>/log/", lake.log, name="lake-log"),
]
