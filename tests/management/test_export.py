"""``replview export``: does the export itself, continues it, lists it, and obeys the switch."""

from pathlib import Path

import orjson
import pyarrow.dataset as ds
import pytest
from django.core.management.base import CommandError

from replview.features.exports.api import SliceWords
from replview.features.exports.forms import ExportForm
from replview.features.exports.page import export_request_of
from replview.management.commands.export import Command
from replview.spark.options import Options
from replview.store.models import Export
from replview.targets.policy import Refused
from tests.support.exported_history import history as history  # a fixture
from tests.support.history_rows import History, insert

SLOT = "shop/replview"


def ids(target: Path) -> list[str]:
    folder = target / "shop" / "replview-1" / "public.orders"
    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return table.column("id").to_pylist()


@pytest.mark.slow
def test_it_writes_records_and_continues(history: History, run, tmp_path: Path) -> None:
    assert "4 rows of 3 transactions" in run("export", slot=SLOT, estimate=True)
    assert "nothing was exported yet" in run("export", list=True)

    said = run("export", slot=SLOT, to=str(tmp_path / "out"), name="nightly", since_last=True)
    assert "4 rows in" in said
    assert ids(tmp_path / "out") == ["1", "2", "3", "3"]
    with pytest.raises(CommandError, match="there is nothing new since export") as error:
        run("export", slot=SLOT, name="nightly", since_last=True)
    assert error.value.returncode == 2

    history.commit(insert(9))
    assert "1 rows in" in run("export", slot=SLOT, name="nightly", since_last=True)
    assert ids(tmp_path / "out") == ["1", "2", "3", "3", "9"]
    first, second = Export.objects.order_by("pk")
    assert first.slice["through_seq"] == second.slice["after_seq"] == 3
    assert first.requested_how == "command"
    assert run("export", list=True).count("done") == 2


@pytest.mark.slow
def test_since_last_keeps_where_rows_before_come_from(
    history: History, run, tmp_path: Path
) -> None:
    last = {"slot": SLOT, "name": "n", "since_last": True}
    run("export", to=str(tmp_path / "out"), images="full", **last)
    history.commit(insert(9))
    by_page = export_request_of(history.slot, ExportForm({"name": "n", "since_last": "1"}))
    by_api = SliceWords(slot=SLOT, name="n", since_last=True).export_request()
    assert (by_page.slice.before, by_api.slice.before) == ("full", "full")
    run("export", **last)
    assert [each.slice["before"] for each in Export.objects.all()] == ["full", "full"]
    schema = tmp_path / "out" / "shop" / "replview-1" / "public.orders" / "_schema.json"
    assert orjson.loads(schema.read_bytes())["whole"] is True

    history.commit(insert(10))
    run("export", images="sent", **last)
    assert Export.objects.latest("pk").slice["before"] == "sent"
    by_name = SliceWords(slot=SLOT, name="n", before="derived", since_last=True).export_request()
    assert by_name.slice.before == "derived"


@pytest.mark.slow
def test_the_scale_of_numeric_is_asked_for_by_every_way(
    history: History, run, tmp_path: Path
) -> None:
    run("export", slot=SLOT, to=str(tmp_path / "out"), name="n", numeric_scale=2)
    history.commit(insert(9))
    run("export", slot=SLOT, name="n", since_last=True)
    assert [each.slice["numeric_scale"] for each in Export.objects.all()] == [2, 2]
    by_page = export_request_of(history.slot, ExportForm({"numeric_scale": "3"}))
    by_api = SliceWords(slot=SLOT, numeric_scale=3).export_request()
    assert (by_page.slice.numeric_scale, by_api.slice.numeric_scale) == (3, 3)
    assert Options.parse({"numeric_scale": "4", "dsn": "x"}).request.numeric_scale == 4
    with pytest.raises(Refused, match="no decimal has 39 digits"):
        export_request_of(history.slot, ExportForm({"numeric_scale": "39"}))


def test_what_it_refuses(history: History, run) -> None:
    # Conditions on single rows are not offered.
    offered = Command().create_parser("replview", "export").format_help()
    assert [word in offered for word in ("--where", "--row", "--text")] == [False, False, True]
    assert "exports are refused" in run("export", forbid=True)
    with pytest.raises(CommandError, match="switched off"):
        run("export", slot=SLOT, to="x")
    assert "exports are allowed" in run("export", allow=True, schemes="S3,gs")
    assert "admins and commands: none" in run("export", schemes="")
    assert "admins and commands: s3, gs" in run("export", schemes="s3,gs")
    for words, why in (
        ({"to": "gopher://host/x"}, "gopher:// is not allowed"),
        ({"to": "../x"}, "has .. in it"),
        ({"to": "x", "tables": ["public.nothing"]}, "no change of a table public.nothing"),
        ({"to": "x", "since_last": True}, "give --name"),
        ({"since": "2h", "until": "1h"}, "name the target"),
        ({"cancel": 7}, "no export 7"),
        ({"root": ""}, "--root must name a folder"),
    ):
        with pytest.raises(CommandError, match=why):
            run("export", slot=SLOT, **words)
    assert not Export.objects.exists()
