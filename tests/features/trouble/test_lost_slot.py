"""A slot that the server gave up is nowhere shown as one that has nothing to catch up."""

import json
import re
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from replview.store.dsn import set_dsn
from replview.store.models import Slot, SlotSample, Source, WatchedSlot
from replview.store.retention.tidy import make_partitions
from tests.support.people import make_user
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.django_db

#: Sizes and ages that say *nothing*: what a lost slot must never be given.
NOTHING = re.compile(r"\b0\s?(B|kB|MB|GB|s|ms)\b")


@pytest.fixture
def lost(any_source: SourceDatabase, settings) -> Iterator[Source]:
    """A sampled source with two lost slots, replview's own and another's."""
    settings.STORE_URL = "postgresql://the-test-store/"
    make_partitions()
    source = Source(name="shop")
    set_dsn(source, any_source.dsn)
    source.save()
    Slot.objects.create(source=source, name="ours", desired=Slot.Desired.RUNNING)
    for name in ("ours", "theirs"):
        any_source.run(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    _lose_every_slot(any_source)
    try:
        assert sample_source(source) is None
        yield source
    finally:
        any_source.run("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def _lose_every_slot(any_source: SourceDatabase) -> None:
    any_source.run(
        "ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'",
        "SELECT pg_reload_conf()",
        "CREATE TABLE filler (i int)",
    )
    with any_source.connect() as connection:
        for _ in range(20):
            connection.execute("INSERT INTO filler VALUES (1)")
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
            left = "SELECT FROM pg_replication_slots WHERE wal_status <> 'lost'"
            if connection.execute(left).fetchone() is None:
                return
    raise AssertionError("the server keeps the slots")


def _without_markup(response) -> str:
    text = re.sub(r"<(script|style|svg).*?</\1>", "", response.content.decode(), flags=re.S)
    return re.sub(r"<[^>]+>", " ", text).replace("&nbsp;", " ").replace("\u00a0", " ")


def test_neither_samples_nor_commands_know_a_lag(lost: Source) -> None:
    assert WatchedSlot.objects.filter(source=lost).count() == 2
    for watched in WatchedSlot.objects.filter(source=lost):
        sample = SlotSample.objects.get(slot_id=watched.pk)
        assert sample.wal_status == "lost"
        for name in ("retained_wal_bytes", "unconfirmed_wal_bytes"):
            assert getattr(sample, name) is None, name
            assert watched.facts.get(name) is None, name
        assert sample.replay_lag_seconds is None
    told = json.loads(_command("slot", "list", "--format", "json"))
    assert told
    for row in told:
        assert 0 not in [row[name] for name in row if "wal" in name or "lag" in name], row
    assert not NOTHING.search(_command("slot", "list"))


def test_pages_charts_and_api_show_no_zero(lost: Source, django_user_model) -> None:
    client = Client()
    client.force_login(make_user("alice", "admin"))
    for page in ("/slots/", "/slots/shop/ours/", "/sources/", "/"):
        text = _without_markup(client.get(page))
        assert "lost" in text.lower(), page
        assert not re.search(r"(?i)(ours|theirs)\b[^.]{0,120}caught up", text), page
        assert not re.search(r"(?i)retain[^.]{0,40}\b0\s?(B|kB|MB|GB)\b", text), page
    for slot in client.get("/api/v1/slots").json():
        assert 0 not in [slot[name] for name in slot if "wal" in name or "lag" in name], slot
    metrics = client.get("/metrics").content.decode()
    assert not re.search(r"(retained|unconfirmed|lag)\w*\{[^}]*\} 0(\.0)?$", metrics, flags=re.M)
    for name in ("ours", "theirs"):
        assert set(_drawn(client, name)) <= {None}


def _drawn(client: Client, slot: str) -> list[float | None]:
    """Every value that the lag page's charts draw of a slot."""
    charts = "retained,unconfirmed,lag"
    answer = client.get(f"/lag/data?slot=shop/{slot}&range=5m&charts={charts}").json()
    assert len(answer["charts"]) == 3
    traces = [trace for chart in answer["charts"] for trace in chart["figure"]["data"]]
    # Unknown values are drawn as a hatched area, as high as the plot.
    lines = [trace for trace in traces if trace.get("fill") != "toself"]
    return [value for trace in lines for value in trace["y"]]


def _command(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()
