"""Connections outside the ORM: to the same store, with what its address says."""

import os
import subprocess
import sys

import pytest
from django.db import connections

from replview.store.connecting import connect_store

#: Opens connections as a worker does first, and then as a chore does.
KEEP = """
import django
django.setup()
from replview.celery import _keep_connections
from replview.store.connecting import lasting_connection
from django.db import connection
_keep_connections()
for _ in range(2):
    with lasting_connection(), connection.cursor() as cursor:
        print(cursor.execute("SELECT pg_backend_pid()").fetchone()[0])
"""


@pytest.mark.django_db
def test_options_of_the_address_are_kept_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    # An address with ?options=… has them like this.
    given = {"options": "-c statement_timeout=30000 -c timezone=Asia/Tokyo"}
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", given)
    with connect_store("a test") as session:
        assert session.execute("SHOW statement_timeout").fetchone() == ("30s",)
        assert session.execute("SHOW timezone").fetchone() == ("UTC",)


@pytest.mark.parametrize("pool", ["0", "1"])
@pytest.mark.django_db(transaction=True)
def test_a_worker_keeps_its_connection_whatever_its_environment_says_of_a_pool(pool: str) -> None:
    at = connections["default"].settings_dict
    store = f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"
    environment = {
        **os.environ, "REPLVIEW_STORE_URL": store, "REPLVIEW_DB_POOL": pool,
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", KEEP], env=environment, capture_output=True, text=True, check=True
    )
    first, second = ran.stdout.split()
    assert first == second
