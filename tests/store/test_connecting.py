"""Connections outside the ORM: to the same store, with what its address says."""

import pytest
from django.db import connections

from replview.store.connecting import connect_store


@pytest.mark.django_db
def test_options_of_the_address_are_kept_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    # As the web server has them, or an address with ?options=…
    given = {"options": "-c statement_timeout=30000 -c timezone=Asia/Tokyo"}
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", given)
    with connect_store("a test") as session:
        assert session.execute("SHOW statement_timeout").fetchone() == ("30s",)
        assert session.execute("SHOW timezone").fetchone() == ("UTC",)
