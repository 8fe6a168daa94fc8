"""Addresses of the live page and of transactions."""

from django.urls import path

from replview.web.views import live, test_message

urlpatterns = [
    path("live/", live.live_page, name="live"),
    path("live/<int:slot_id>/test-message/", test_message.send, name="test-message"),
    path("transactions/<int:transaction_id>/", live.transaction_page, name="transaction"),
    path("transactions/<int:transaction_id>/drawer/", live.drawer, name="transaction-drawer"),
    path("transactions/<int:transaction_id>/changes/", live.changes, name="transaction-changes"),
    path(
        "transactions/<int:transaction_id>/changes/<int:seq>/value/",
        live.value,
        name="transaction-value",
    ),
]
