"""The API of lakes: the facts, the role, and what is withheld."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from replview.features.lake.request import add, request_run
from replview.store.models import Lake, LakeRun, Source
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.people import make_user


@pytest.fixture
def lake(transactional_db, settings, tmp_path: Path) -> Lake:
    """A lake of two tables, which was read up to the only transaction, and whose run waits."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    history = History()
    history.table("people", 16385, ["id"])
    history.commit(insert(1))
    lake = Lake(name="shop", slot=history.slot, format="delta", root="lake", added_by="root")
    add(lake, ["public.orders", "public.people"], anywhere=True, base=tmp_path)
    size = {"rows": 1, "files": 1, "bytes": 900}
    lake.relations.filter(name="public.orders").update(
        reached={"1": 1}, sizes={"changes": size, "current": size}, reported_at=timezone.now()
    )
    request_run(lake, "run", by="alice", how=LakeRun.How.PAGE)
    return lake


def client(role: str = "operator", **more: object) -> Client:
    client = Client()
    client.force_login(make_user("alice", role, **more))  # type: ignore[arg-type]
    return client


def test_a_lake_has_its_tables_and_its_last_run(lake: Lake) -> None:
    reader = client()
    one = reader.get(f"/api/v1/lakes/{lake.pk}").json()
    assert reader.get("/api/v1/lakes").json() == [one]
    assert (one["name"], one["slot"], one["root"]) == ("shop", "shop/replview", lake.root)
    assert (one["run"]["state"], one["run"]["requested_by"]) == ("waiting", "alice")
    orders, people = one["tables"]
    assert (orders["behind_changes"], orders["changes"]["bytes"]) == (0, 900)
    assert (people["reached"], people["changes"], people["reported_at"]) == ({}, None, None)


def test_what_an_account_may_not_see_is_not_there(lake: Lake) -> None:
    source = Source.objects.get()
    reader = client(sources=[source], tables=["public.orders"])
    [one] = reader.get("/api/v1/lakes").json()
    assert [table["table"] for table in one["tables"]] == ["public.orders"]


def test_a_lake_of_a_hidden_source_and_a_viewer_are_refused(lake: Lake) -> None:
    other = Source.objects.create(name="other", conninfo="")
    reader = client(sources=[other])
    assert reader.get("/api/v1/lakes").json() == []
    assert reader.get(f"/api/v1/lakes/{lake.pk}").status_code == 404
    viewer = Client()
    viewer.force_login(make_user("vera", "viewer"))
    assert viewer.get("/api/v1/lakes").status_code == 403
