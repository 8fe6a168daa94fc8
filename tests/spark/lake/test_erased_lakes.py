"""``replview erase`` with a lake: its job on Spark erases there, too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replview.features.lake.request import add
from replview.store.models import Erasure, Lake, LakeRun
from tests.support.commands import an_instance as an_instance
from tests.support.commands import run as run
from tests.support.lake_connectors import session_variables
from tests.support.searching import columns_holding, files_holding
from tests.support.source_databases import SourceDatabase

pytestmark = [pytest.mark.slow, pytest.mark.own_jvm]

PLANTED = "PLANTED"


def test_an_erasure_reaches_the_lakes_that_hold_the_table(
    source: SourceDatabase,
    record: Any,
    run: Callable[..., str],
    settings: Any,
    tmp_path: Path,
    monkeypatch,
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    for name, value in session_variables().items():
        monkeypatch.setenv(name, value)
    source.run(
        "CREATE TABLE person (id int PRIMARY KEY, name text)",
        "CREATE TABLE other (id int PRIMARY KEY)",
    )
    recording = record(source)
    source.run(
        "INSERT INTO person VALUES (1, 'PLANTED Ann'), (2, 'Bob')",
        "UPDATE person SET name = 'PLANTED Anna' WHERE id = 1",
        "INSERT INTO other VALUES (1)",
    )
    recording.caught_up()
    for name in ("person", "other"):
        lake = Lake(name=name, slot=recording.slot, format="delta", root=name, connector="none")
        add(lake, [f"public.{name}"], anywhere=True, base=tmp_path)
    run("lake", "run", "person")
    assert files_holding(PLANTED, tmp_path / "person")

    run("erase", str(recording.slot), "public.person", "1", yes=True)
    act = Erasure.objects.get()
    [root] = act.roots
    assert (act.state, root["what"], root["done"]) == ("done", "lake person", True)
    # The preimage of the update was not sent.
    assert (root["rows"], root["files"]) == (2, 1)
    assert files_holding(PLANTED, tmp_path / "person", tmp_path / "data") == []
    assert columns_holding(PLANTED) == []
    sizes = Lake.objects.get(name="person").relations.get().sizes
    assert [sizes[kind]["rows"] for kind in ("changes", "current")] == [3, 1]
    # A lake that reads the record only now has no row without its key.
    late = Lake(name="late", slot=recording.slot, format="delta", root="late", connector="none")
    add(late, ["public.person"], anywhere=True, base=tmp_path)
    run("lake", "run", "late")
    sizes = late.relations.get().sizes
    assert [sizes[kind]["rows"] for kind in ("changes", "current")] == [3, 1]
    ended = LakeRun.objects.get(action="erase")
    assert (ended.state, ended.requested_by) == ("done", f"erasure {act.pk}")
