"""URLs of the in-flight page."""

from django.urls import path

from replview.features.in_flight import views as in_flight

urlpatterns = [
    path("in-flight/", in_flight.in_flight, name="in-flight"),
    path("in-flight/now/", in_flight.now, name="in-flight-now"),
    path("in-flight/ended/", in_flight.ended, name="in-flight-ended"),
    path("in-flight/<int:transaction_id>/drawer/", in_flight.drawer, name="in-flight-drawer"),
]
