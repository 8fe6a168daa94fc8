"""A source whose settings are not English, ISO or UTC is added, read and shown like any other."""

import json
from collections.abc import Iterator

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from replview.store.models import Slot, Source
from tests.support.baselines import take
from tests.support.sampling import sample_source
from tests.support.source_databases import SourceDatabase

pytestmark = pytest.mark.slow

SETTINGS = {
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Tokyo",
    "bytea_output": "escape",
    "extra_float_digits": "-5",
    "client_encoding": "LATIN1",
    "search_path": "nowhere",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
}


@pytest.fixture(params=["DATABASE", "ROLE"])
def foreign(shop, request) -> Iterator[tuple[SourceDatabase, str]]:
    """The shop, whose database or a role of which has these settings, and how it is reached."""
    name, dsn = shop.name, shop.dsn
    if request.param == "ROLE":
        name = f"tokyo_{shop.name}"[:63]
        shop.run(f"CREATE ROLE \"{name}\" SUPERUSER LOGIN REPLICATION PASSWORD 'tokyo'")
        dsn = make_conninfo(shop.dsn, user=name, password="tokyo")
    with shop.connect() as connection:
        for setting, value in SETTINGS.items():
            connection.execute(
                sql.SQL("ALTER {} {} SET {} = {}").format(
                    sql.SQL(request.param), sql.Identifier(name), sql.Identifier(setting),
                    sql.Literal(value),
                )
            )  # fmt: skip
    yield shop, dsn
    if request.param == "ROLE":
        shop.run(f'DROP ROLE "{name}"')


@pytest.mark.parametrize("interface", ["walsender", "sql"])
def test_a_source_of_any_settings_is_read_like_any_other(
    run, foreign: tuple[SourceDatabase, str], record, interface: str, admin_client
) -> None:
    shop, dsn = foreign
    shop.run(
        "CREATE TABLE public.kinds (id int PRIMARY KEY, at timestamptz, took interval, raw bytea, "
        "share float8, day date)",
        "SET standard_conforming_strings = on; INSERT INTO public.kinds VALUES "
        "(1, '2026-01-02 03:04:05.678+00', '90 minutes', decode('0aff', 'hex'), 0.1, '2026-01-02')",
    )
    assert "can be replicated" in run("doctor", dsn)
    run("source", "add", "shop", "--dsn", dsn)
    assert "shop" in run("source", "list")
    recording = record(shop, interface=interface, start=False)
    recording.dsn = dsn
    Slot.objects.filter(pk=recording.slot.pk).update(source=Source.objects.get(name="shop"))
    recording.slot.refresh_from_db()
    recording.start()
    recording.streaming()
    shop.run("UPDATE public.kinds SET id = 2", "INSERT INTO public.kinds (id) VALUES (3)")
    recording.caught_up()

    expected = {
        "id": "2", "at": "2026-01-02 03:04:05.678+00", "took": "01:30:00", "raw": "\\x0aff",
        "share": "0.1", "day": "2026-01-02",
    }  # fmt: skip
    update = recording.changes(recording.transactions()[0])[0]
    assert update.new == expected
    baseline = take(recording, "public.kinds")
    [row, _] = recording.changes(baseline)
    assert row.new == expected
    assert sample_source(recording.slot.source) is None
    for page in ("/", "/slots/", "/lag/", "/relations/", "/in-flight/", "/transactions/"):
        assert admin_client.get(page, {"slot": str(recording.slot)}).status_code == 200, page
    recording.end()
    found = run("slot", "peek", "shop", recording.slot.name, "--yes", "--format", "json")
    assert json.loads(found)["complete"]
