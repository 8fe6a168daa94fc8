"""URLs of the lag page and of its data."""

from django.urls import path

from replview.features.lag import views as lag

urlpatterns = [
    path("lag/", lag.lag, name="lag"),
    path("lag/data", lag.data, name="lag-data"),
    path("lag/csv", lag.csv, name="lag-csv"),
]
