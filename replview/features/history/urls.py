"""Addresses of the history jobs."""

from django.urls import path

from replview.features.history import views as history_jobs

urlpatterns = [
    path("history/", history_jobs.history_page, name="history-jobs"),
    path("history/new/", history_jobs.new, name="history-job-new"),
    path("history/all/", history_jobs.all_jobs, name="history-jobs-all"),
    path("history/<int:job_id>/", history_jobs.job, name="history-job"),
    path("history/<int:job_id>/cancel/", history_jobs.cancel, name="history-job-cancel"),
    path("history/<int:job_id>/log/", history_jobs.log, name="history-job-log"),
]
