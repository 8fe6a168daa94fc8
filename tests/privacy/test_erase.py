"""Erasing a person: nothing of the rows is left in any column of the store or value of a file, and
the record of what happened is as it was.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from replview.access.visibility import forget, reading_session
from replview.acts.sources import rename_source
from replview.features.erasure import actor as erased_actor
from replview.features.erasure import job as serving
from replview.features.erasure import queue as erasing
from replview.features.erasure import related_rows
from replview.features.erasure import rows as erased_rows
from replview.features.erasure import run as erasing_act
from replview.features.erasure.queue import Unerasable, read_erasure_request
from replview.features.erasure.rows import FoundChange
from replview.features.exports.request import read_export_request
from replview.parquet import reading
from replview.parquet.archive.reading import ArchivedIncarnation
from replview.parquet.erasure.finding import FileErasure, is_mark
from replview.parquet.erasure.roots import ErasureRoot
from replview.parquet.slices import Narrowing
from replview.parquet.writing.exporting import export
from replview.parquet.writing.manifests import read_manifest
from replview.parquet.writing.targets import Target
from replview.store import instance_settings
from replview.store.connecting import store_conninfo
from replview.store.models import (
    AbortedSubtransaction,
    ActorActivity,
    Change,
    Erasure,
    Export,
    Lake,
    LakeRelation,
    LakeRun,
    LargeValue,
    MaskRule,
    Quarantine,
    SavedFilter,
    SlotPeek,
    Transaction,
)
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.trails import TrailPosition
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.retention.tidy import make_partitions
from replview.targets.policy import Refused
from tests.support.people import make_user
from tests.support.recorded import iterate_changes
from tests.support.searching import columns_holding, files_holding

#: In every value of the person's rows, whatever else is in it.
PLANTED = "PLANTED"


class Clinic:
    """A source with two tables, recorded: ``patient`` under DEFAULT, ``visit`` under FULL."""

    def __init__(self, source, record) -> None:
        self.source = source
        source.run(
            "CREATE TABLE patient (mail text PRIMARY KEY, name text, letter text)",
            "ALTER TABLE patient ALTER letter SET STORAGE EXTERNAL",
            "CREATE TABLE visit (id int PRIMARY KEY, mail text, note text)",
            "ALTER TABLE visit REPLICA IDENTITY FULL",
        )
        self.recording = record(source)
        self.slot = self.recording.slot

    def run(self, *statements: str) -> "Clinic":
        """Run them and wait until they are stored."""
        self.source.run(*statements)
        self.recording.caught_up()
        return self

    def live(self) -> "Clinic":
        """A person's rows, moved, aborted and deleted, among others'."""
        return self.run(
            "INSERT INTO patient VALUES ('PLANTED@old', 'PLANTED Ann', repeat('PLANTED', 3000)),"
            " ('bob@b', 'Bob', repeat('bob', 3000))",
            "UPDATE patient SET name = 'PLANTED Anna' WHERE mail = 'PLANTED@old'",
            "UPDATE patient SET name = 'Robert' WHERE mail = 'bob@b'",
            "INSERT INTO visit VALUES (7, 'PLANTED@old', 'PLANTED fever'), (8, 'bob@b', NULL)",
            "UPDATE patient SET mail = 'PLANTED@new' WHERE mail = 'PLANTED@old'",
            "UPDATE visit SET note = 'PLANTED cold' WHERE id = 7",
            "UPDATE visit SET note = 'well' WHERE id = 8",
            "DELETE FROM visit WHERE id = 7",
            "UPDATE patient SET name = 'PLANTED Ann again' WHERE mail = 'PLANTED@new'",
        )

    def aborted(self) -> Change:
        """A change of the person that a subtransaction's abort took back, and was kept."""
        last = Change.objects.filter(new__name="PLANTED Ann again").get()
        AbortedSubtransaction.objects.create(transaction_id=last.transaction_id, subxid=5)
        image = {**last.new, "name": "PLANTED undone"}
        return Change.objects.create(
            transaction_id=last.transaction_id, seq=last.seq + 1, lsn=last.lsn, subxid=5, op="U",
            relation_id=last.relation_id, version_id=last.version_id, key_hash=last.key_hash,
            new=image,
        )  # fmt: skip

    def recorded(self) -> list[dict[str, Any]]:
        """Every change as the command line has it."""
        return [change for _, change in iterate_changes(reading_session(), self.slot)]

    def erase(self, *words: str, **options: Any) -> Erasure:
        """Erase by the command and return the stored erasure."""
        call_command("erase", str(self.slot), *words, yes=True, **options)
        return Erasure.objects.latest("pk")


@pytest.fixture
def clinic(source, record, settings) -> Clinic:
    """The clinic, recorded."""
    settings.STORE_URL = "the test's"
    return Clinic(source, record)


@pytest.fixture
def exported(clinic: Clinic, tmp_path: Path, settings):
    """``exported(name)``: all of the slot, written as an export or an archive is."""
    settings.DATA_DIR, store_dsn = str(tmp_path / "data"), store_conninfo()

    def write(name: str, *, known: bool = True, actors: Sequence[str] = (), text: str = "") -> Path:
        folder = tmp_path / "data" / "exports" / name
        with reading.connect(store_dsn) as store:
            part = reading.resolve(
                store, reading.SliceRequest(slot=clinic.slot.name, actors=tuple(actors))
            )
        part = replace(part, narrowed=Narrowing.of(TransactionFilter(text=text)))
        manifest = export(part, Target.of(str(folder)), dsn=store_dsn)
        if known:
            Export.objects.create(
                slot=clinic.slot, slot_name=str(clinic.slot), slice=part.to_json(),
                target=str(folder), requested_by="alice", requested_how="page", state="done",
                result=dict(manifest.document), words={"q": text} if text else {}, name=name,
            )  # fmt: skip
        return folder

    return write


PERSON = ("patient", "PLANTED@new")


@pytest.mark.slow
def test_nothing_of_a_person_is_left_and_history_stays(clinic, exported, tmp_path, capsys) -> None:
    clinic.live().aborted()
    change = Change.objects.filter(op="I", new__contains={"name": "PLANTED Ann"}).get()
    LargeValue.objects.create(
        transaction_id=change.transaction_id, seq=change.seq, side="new", column="letter",
        piece=0, content="PLANTED, and very long",
    )  # fmt: skip
    export_folder, archive = exported("one"), exported("archive", known=False)
    instance_settings.write("archive.target", str(archive), "alice")
    before, changes = clinic.recorded(), Change.objects.count()
    assert columns_holding(PLANTED)
    assert files_holding(PLANTED, export_folder, archive)
    keys = tmp_path / "keys"
    keys.write_text("# of one person\npublic.patient PLANTED@new\npublic.visit 7\n")
    stamps = {path: path.stat().st_mtime_ns for path in export_folder.rglob("*")}
    call_command("erase", str(clinic.slot), key_file=str(keys), dry_run=True)
    shown = capsys.readouterr().out
    assert "public.patient: 5 changes" in shown
    assert "Dry run: 8 changes of 2 rows would be erased." in shown
    assert clinic.recorded() == before
    assert {path: path.stat().st_mtime_ns for path in export_folder.rglob("*")} == stamps
    assert Erasure.objects.get().sealed_plan == ""
    rows = {path: pq.read_metadata(path).num_rows for path in export_folder.rglob("*.parquet")}

    act = clinic.erase(key_file=str(keys), why="asked for by post")

    assert act.state == Erasure.State.DONE
    assert columns_holding(PLANTED) == []
    assert files_holding(PLANTED, export_folder, archive) == []
    assert Change.objects.count() == changes
    after = clinic.recorded()
    shape = ("commit_seq", "op", "table", "xid", "commit_time", "lsn", "not_sent")
    assert [[c[name] for name in shape] for c in after] == [
        [c[name] for name in shape] for c in before
    ]
    others = [c for c in before if PLANTED not in orjson.dumps(c).decode()]
    assert [c for c in after if c in others] == others
    erased = [c for c in after if c not in others]
    assert {"$erased": True, "$on": str(act.confirmed_at.date())} == erased[0]["new"]["name"]
    assert all(
        set(c[side] or {}) == set(b[side] or {})
        for b, c in zip(before, after, strict=True)
        for side in ("old", "new")
    )
    assert (act.reason, act.keys, act.sealed_plan) == ("asked for by post", 2, "")
    assert PLANTED not in orjson.dumps(act.digests).decode()
    # The changes of the aborted savepoint are among those that were erased.
    # And what nobody sees: a change that was taken back.
    assert act.erased["changes"] == act.found["changes"] == len(erased) + 1
    assert [root["rows"] for root in act.roots] == [len(erased), len(erased)]
    assert_files_are_as_told(export_folder, rows, act)
    assert_vacuumed()


def assert_files_are_as_told(folder: Path, rows: dict[Path, int], act: Erasure) -> None:
    """Manifest and note tell what the files are now; the archive's reader finds the marks."""
    incarnation = next(folder.glob("*/*"))
    target, name = Target.of(str(folder)), str(incarnation.relative_to(folder))
    for each in read_manifest(target, name).files:
        path = folder / each["path"]
        found = (path.stat().st_size, pq.read_metadata(path).num_rows)
        assert found == (each["bytes"], rows[path])
    notes = orjson.loads((incarnation / "_erased.json").read_bytes())["erasures"]
    assert [(n["erasure"], n["finished"], len(n["files"])) for n in notes] == [(act.pk, True, 2)]
    changes = ArchivedIncarnation(target, name).transaction(1).changes
    erased = [c for c in changes if c.new and isinstance(c.new["name"], dict)]
    assert [set(c.new) for c in erased] == [{"mail", "name", "letter"}]


def assert_vacuumed() -> None:
    """The former versions of the rows are gone."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(last_vacuum) FROM pg_stat_user_tables WHERE relname LIKE 'change\\_2%'"
        )
        assert cursor.fetchone()[0] >= 1


@pytest.mark.slow
def test_an_act_that_was_interrupted_goes_on_where_it_was(clinic, exported, monkeypatch) -> None:
    clinic.live()
    folders = exported("one"), exported("two")
    monkeypatch.setattr(erased_rows, "PAGE", 1)
    row = erasing.request(
        read_erasure_request(clinic.slot, [PERSON, ("visit", "7")]), by="alice", how="command"
    )
    serving.carry_out(erasing.claim(row.pk), threading.Event())
    row.refresh_from_db()
    assert row.state == Erasure.State.LOOKED
    erasing.confirm(row, by="alice")

    class Broken(Exception):
        """A crash."""

    whole = ErasureRoot.erase

    def broken(self: ErasureRoot, *args: Any) -> Any:
        if "two" in self.target.url:
            raise Broken
        return whole(self, *args)

    monkeypatch.setattr(ErasureRoot, "erase", broken)
    with pytest.raises(Broken):
        serving.carry_out(erasing.claim(row.pk), threading.Event())
    assert files_holding(PLANTED, folders[0]) == []
    assert files_holding(PLANTED, folders[1])
    monkeypatch.setattr(ErasureRoot, "erase", whole)
    # An export that waits now begins while the store is erased: it may have read everything.
    late = Export.objects.filter(target=str(folders[1]))
    late.update(state="waiting")
    erase_store = erasing_act.Act.erase_store

    def meanwhile(self: erasing_act.Act) -> Any:
        late.update(state="done")
        return erase_store(self)

    monkeypatch.setattr(erasing_act.Act, "erase_store", meanwhile)
    # Its worker is gone: the next takes it up.
    Erasure.objects.update(heartbeat_at=None)
    serving.carry_out(erasing.claim(), threading.Event())
    row.refresh_from_db()
    assert row.state == Erasure.State.DONE
    assert files_holding(PLANTED, *folders) == []
    assert columns_holding(PLANTED) == []


@pytest.mark.slow
def test_a_crash_between_two_changes_forgets_no_former_key(clinic, monkeypatch) -> None:
    clinic.live().run("UPDATE patient SET name = 'PLANTED Zoe' WHERE mail = 'PLANTED@new'")
    # What finds it is the first value that is erased.
    SavedFilter.objects.create(
        user=make_user("saver"), page="find", name="Zoe", query="q=PLANTED+Zoe"
    )
    row = erasing.request(read_erasure_request(clinic.slot, [PERSON]), by="alice", how="command")
    serving.carry_out(erasing.claim(row.pk), threading.Event())
    row.refresh_from_db()
    erasing.confirm(row, by="alice")
    erase = erasing_act.Eraser.erase
    done = []

    def once(self: Any, page: Any, columns: Any) -> int:
        if done:
            raise psycopg.OperationalError
        done.append(page)
        return erase(self, page, columns)

    monkeypatch.setattr(erasing_act.Eraser, "erase", once)
    with pytest.raises(psycopg.OperationalError):
        serving.carry_out(erasing.claim(row.pk), threading.Event())
    monkeypatch.setattr(erasing_act.Eraser, "erase", erase)
    Erasure.objects.update(heartbeat_at=None)
    serving.carry_out(erasing.claim(), threading.Event())
    names = [c["new"]["name"] for c in clinic.recorded() if c["new"] and "name" in c["new"]]
    assert PLANTED not in orjson.dumps(names).decode()
    assert not SavedFilter.objects.exists()


@pytest.mark.slow
def test_a_folder_that_is_away_is_named_and_tried_again(clinic, exported, tmp_path) -> None:
    clinic.live()
    inside = exported("one")
    away = tmp_path / "elsewhere"
    inside.rename(away)
    Export.objects.update(target=str(away))
    away.rename(tmp_path / "unmounted")
    with pytest.raises(CommandError, match="not reached: export"):
        clinic.erase(*PERSON)
    act = Erasure.objects.get()
    assert act.state == Erasure.State.UNFINISHED
    assert act.sealed_plan
    assert PLANTED not in act.sealed_plan
    (tmp_path / "unmounted").rename(away)
    call_command("erase", go_on=act.pk)
    act.refresh_from_db()
    assert act.state == Erasure.State.DONE
    # The visit was not named.
    found = files_holding("PLANTED Ann", away) + files_holding("PLANTED@new", away)
    assert found == []


@pytest.mark.slow
def test_a_lake_that_is_busy_is_named_and_tried_again(clinic, capsys) -> None:
    clinic.live()
    names = {"patients": "public.patient", "visits": "public.visit"}
    for name, table in names.items():
        lake = Lake.objects.create(name=name, slot=clinic.slot, slot_name=str(clinic.slot),
                                   format="delta", root=f"/{name}")  # fmt: skip
        LakeRelation.objects.create(lake=lake, name=table)
    lake = Lake.objects.get(name="patients")
    run = LakeRun.objects.create(lake=lake, action="run", requested_how="page")

    call_command("erase", str(clinic.slot), *PERSON, dry_run=True)
    shown = "lake patients (/patients#patients): searched by Spark when it is erased"
    assert shown in capsys.readouterr().out
    with pytest.raises(CommandError, match="not reached: lake patients"):
        clinic.erase(*PERSON)
    act = Erasure.objects.latest("pk")
    assert act.state == Erasure.State.UNFINISHED
    [root] = act.roots
    assert (root["what"], root["problem"]) == (
        "lake patients", f"lake patients is busy: run {run.pk} (run) is waiting"
    )  # fmt: skip
    # An actor may be in the changes of every table.
    act = erasing.request(
        read_erasure_request(clinic.slot, [], actor="Ann"), by="alice", how="command"
    )
    serving.carry_out(erasing.claim(act.pk), threading.Event())
    act.refresh_from_db()
    assert [root["what"] for root in act.roots] == ["lake patients", "lake visits"]


@pytest.mark.slow
def test_the_next_person_under_the_same_key_is_left_alone(clinic) -> None:
    clinic.run(
        "INSERT INTO patient VALUES ('a@a', 'PLANTED', '')",
        "UPDATE patient SET mail = 'b@b' WHERE mail = 'a@a'",
        "INSERT INTO patient VALUES ('a@a', 'somebody else', '')",
        "UPDATE patient SET name = 'still somebody else' WHERE mail = 'a@a'",
        "DELETE FROM patient WHERE mail = 'b@b'",
        "INSERT INTO patient VALUES ('b@b', 'PLANTED again', '')",
    )
    act = clinic.erase("patient", "b@b")
    assert act.erased["changes"] == 4
    texts = orjson.dumps(clinic.recorded()).decode()
    assert PLANTED not in texts
    assert "still somebody else" in texts
    relation = clinic.recorded()[2]["relation_oid"]
    assert relation is not None


@pytest.mark.slow
def test_a_row_is_found_by_every_text_of_its_key(clinic) -> None:
    clinic.run("CREATE TABLE bill (id numeric PRIMARY KEY, name text)")
    clinic.run("INSERT INTO bill VALUES (1.10, 'PLANTED'), (1.2, 'Bob')")
    act = clinic.erase("bill", "1.1")
    assert act.erased["changes"] == 1
    texts = orjson.dumps(clinic.recorded()).decode()
    assert PLANTED not in texts
    assert "Bob" in texts


@pytest.mark.slow
def test_rows_without_a_key_are_found_by_their_values(clinic, exported) -> None:
    clinic.run(
        "CREATE TABLE heap (mail text, note text)",
        "ALTER TABLE heap REPLICA IDENTITY FULL",
        "INSERT INTO heap VALUES ('PLANTED@x', 'PLANTED one'), ('bob', 'two')",
        "UPDATE heap SET note = 'PLANTED three' WHERE mail = 'PLANTED@x'",
    )
    folder = exported("archive", known=False)
    instance_settings.write("archive.target", str(folder), "alice")
    # Its files keep the name that the source had.
    rename_source(clinic.slot.source, "hospital", by="alice")
    with pytest.raises(CommandError, match="the table has no key"):
        clinic.erase("heap", "PLANTED@x")
    assert clinic.erase("heap", "mail=PLANTED@x").erased["changes"] == 2
    assert columns_holding(PLANTED) == files_holding(PLANTED, folder) == []
    assert clinic.recorded()[1]["new"] == {"mail": "bob", "note": "two"}


@pytest.mark.slow
def test_only_some_columns_and_what_comes_later(clinic) -> None:
    clinic.live()
    clinic.erase(*PERSON, column=["name"])
    texts = orjson.dumps(clinic.recorded()).decode()
    assert "PLANTED Ann" not in texts
    assert "PLANTED@new" in texts
    row = Change.objects.filter(op="I", new__has_key="letter").order_by("transaction_id").first()
    page = row_history(reading_session(), clinic.slot, row.relation_id, {"mail": "PLANTED@new"})
    assert [entry.step.op for entry in page.entries] == ["U", "U", "U", "I"]
    # The source's later changes are recorded as ever.
    clinic.run("UPDATE patient SET name = 'PLANTED anew' WHERE mail = 'PLANTED@new'")
    assert clinic.recorded()[-1]["new"]["name"] == "PLANTED anew"


@pytest.mark.slow
def test_an_actor_and_what_names_the_rows_beside_the_record(clinic, exported) -> None:
    clinic.live().run(
        "ALTER TABLE patient RENAME TO person",
        "UPDATE person SET name = 'PLANTED Ann, renamed' WHERE mail = 'PLANTED@new'",
    )
    Transaction.objects.update(
        actor="PLANTED admin", context={"actor": "PLANTED admin", "request": "r1"}
    )
    # In one it was somebody else who acted last.
    several = Transaction.objects.order_by("commit_seq")[0]
    several.actors = [{"seq": 0, "actor": "PLANTED admin", "grade": "claimed"},
                      {"seq": 2, "actor": "kept", "grade": "claimed"}]  # fmt: skip
    several.actor, several.context = "kept", None
    several.save()
    # The manifest of an export also holds the values that it is narrowed to.
    folder = exported("one", actors=["PLANTED admin"])
    texts = ["patient PLANTED ANNA", "planted@NEW", "kept"]
    searched = [exported(f"text {n}", text=text) for n, text in enumerate(texts)]
    person = make_user("saver")
    slot = str(clinic.slot)
    for name, query in {
        "by key": f"key=PLANTED%40new&slot={slot}&tables=public.patient",
        "by value": f"slot={slot}&where=name+%3D+%27PLANTED+Anna%27",
        "by actor": f"actor=PLANTED+admin&slot={slot}",
        "kept": f"slot={slot}&tables=public.patient",
    }.items():
        SavedFilter.objects.create(user=person, page="find", name=name, query=query)
    Quarantine.objects.create(
        slot=clinic.slot, incarnation=clinic.slot.incarnation, relation="public.patient", tag="I",
        raw=b"I\0 PLANTED@new", raw_bytes=14, cause="", remedy="",
    )  # fmt: skip
    SlotPeek.objects.create(
        source=clinic.slot.source, slot_name="other", max_changes=1, max_seconds=1, state="done",
        result={"first_changes": [{"schema": "public", "table": "patient",
                                   "new": {"mail": "PLANTED@new"}}]},
    )  # fmt: skip
    SlotPeek.objects.create(
        source=clinic.slot.source, slot_name="other", max_changes=1, max_seconds=1, state="done",
        result={"first_changes": [], "listed": [{"actors": [{"actor": "PLANTED admin"}]}]},
    )  # fmt: skip
    act = clinic.erase("person", "PLANTED@new", actor="PLANTED admin")
    call_command("erase", slot, "visit", "7", yes=True)
    assert [row.name for row in SavedFilter.objects.all()] == ["kept"]
    assert columns_holding(PLANTED) == []
    several.refresh_from_db()
    assert [part["actor"] for part in several.actors] == [f"erased actor {act.pk}", "kept"]
    assert files_holding(PLANTED, folder, *searched) == files_holding("planted@", *searched) == []
    narrowed = Export.objects.filter(name__startswith="text").order_by("pk")
    new = [f"erased text {act.pk}", f"erased text {act.pk}", "kept"]
    assert [row.words["q"] for row in narrowed] == new
    assert [row.slice["narrowed"]["text"] for row in narrowed] == new
    assert [row.result["slice"]["narrowed"]["text"] for row in narrowed] == new
    assert act.found["beside"]["texts that narrowed exports"] == 2
    # To go on with such a one would be to export something else.
    with pytest.raises(Refused, match="was erased with the rows it named"):
        read_export_request(clinic.slot, narrowed[0].words, name="text 0", since_last=True)
    actors = {change["actor"] for change in clinic.recorded()}
    assert actors == {f"erased actor {act.pk}", "kept"}
    assert Transaction.objects.exclude(pk=several.pk).first().context["request"] == "r1"
    assert act.found["beside"]["saved filters"] == 2


def test_a_filter_is_known_by_a_value_that_is_only_in_the_old_row(db) -> None:
    from tests.support.history_rows import History

    make_partitions()
    history = History()
    made = history.commit(
        {"op": "U", "old": {"id": "1", "note": "before"}, "new": {"id": "1", "note": "after"}}
    )
    found = FoundChange(
        made, 1, TrailPosition(1, 1, 1), "U", None, None, None, None, counts=True, is_whole=False
    )
    filters = [(1, "note = before"), (2, "note = after"), (3, "note = other")]
    assert related_rows.filters_with_values(filters, [found], ()) == {1, 2}


def test_what_an_actor_did_is_summed_up_under_the_new_name_by_every_try(db) -> None:
    from tests.support.history_rows import WHEN, History

    history = History()

    def did(transactions: int) -> None:
        ActorActivity.objects.create(
            incarnation_id=history.incarnation.pk, actor=PLANTED, day=WHEN.date(), relation_id=0,
            grade="claimed", transactions=transactions,
        )  # fmt: skip

    for transactions in (2, 3):
        did(transactions)
        erased_actor.erase(history.slot, PLANTED, "erased actor 7", {"$erased": True})
    sums = ActorActivity.objects.values_list("actor", "transactions")
    assert list(sums) == [("erased actor 7", 5)]


def test_an_export_is_renamed_only_where_it_names_the_actor(db) -> None:
    from tests.support.history_rows import History

    told = {"source": "shop", "tables": ["public.shop"], "actors": ["shop", "ann"],
            "narrowed": {"text": "by shop"}}  # fmt: skip
    row = Export.objects.create(
        slot=History().slot, slice=told, words={"slot": "shop/x", "actor": "shop", "q": "by shop"},
        target="/x", requested_by="ann", requested_how="page", result={"slice": told},
    )  # fmt: skip
    erased_actor.rename_exports([row], "shop", "erased actor 7")
    row.refresh_from_db()
    assert row.slice == row.result["slice"] == {
        **told, "actors": ["erased actor 7", "ann"], "narrowed": {"text": "by erased actor 7"},
    }  # fmt: skip
    assert row.words == {"slot": "shop/x", "actor": "erased actor 7", "q": "by erased actor 7"}


def test_a_refusal_repeats_no_key(db) -> None:
    from tests.support.history_rows import History

    history = History()
    for pairs, cause in (
        ([("orders", "id=PLANTED, x=1")], "orders"),
        ([("nowhere", "PLANTED")], "nowhere"),
        ([], "nothing is named"),
    ):
        with pytest.raises(Unerasable, match=cause) as refused:
            read_erasure_request(history.slot, pairs)
        assert PLANTED not in f"{refused.value.cause} {refused.value.remedy}"


@pytest.mark.slow
def test_a_key_that_is_masked_on_display_is_found_in_exports_and_confirms_no_guess(
    clinic, tmp_path, capsys
) -> None:
    MaskRule.objects.create(table_pattern="*.patient", column_pattern="mail", when="display")
    forget()
    clinic.live().run("INSERT INTO patient VALUES ('eve@e', 'Eve', '')")
    part = read_export_request(clinic.slot, {}).slice
    assert dict(part.masked) == {"public.patient": ("mail",)}
    folder = tmp_path / "masked"
    manifest = export(part, Target.of(str(folder)), dsn=store_conninfo())
    Export.objects.create(
        slot=clinic.slot, slot_name=str(clinic.slot), slice=part.to_json(), target=str(folder),
        requested_by="alice", requested_how="page", state="done", result=dict(manifest.document),
    )  # fmt: skip
    assert files_holding("PLANTED Ann", folder)
    said = []
    for guess in (PERSON[1], "nobody@nowhere"):
        call_command("erase", str(clinic.slot), "patient", guess, dry_run=True)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "a key column is masked" in said[0]
    assert [row.found for row in Erasure.objects.all()] == [{"withheld": True}] * 2

    act = clinic.erase(*PERSON)

    assert (act.state, act.erased["changes"]) == (Erasure.State.DONE, 4)
    assert files_holding("PLANTED Ann", folder) == []
    texts = orjson.dumps(clinic.recorded()).decode()
    assert "PLANTED Ann" not in texts
    # The other's row in the same file stays.
    assert files_holding("Robert", folder)
    # Once the record no longer tells the key, nobody can say whose the changes in the file are.
    Transaction.objects.all().update(commit_seq=None)
    with pytest.raises(CommandError, match="the record no longer has 1 change whose key is masked"):
        clinic.erase("patient", "bob@b")
    unfinished = Erasure.objects.latest("pk")
    assert unfinished.state == Erasure.State.UNFINISHED
    assert files_holding("Robert", folder) == []
    assert files_holding("Eve", folder)
    call_command("erase", go_on=unfinished.pk, leave_out=str(folder))
    forget()


@pytest.mark.slow
def test_a_key_that_was_masked_at_ingest_is_said_not_to_be_found(clinic, capsys) -> None:
    rule = MaskRule.objects.create(table_pattern="*.patient", column_pattern="mail", when="ingest")
    forget()
    clinic.live()
    # No key of the table was ever stored: whatever is guessed, the answer is the same.
    for guess in (PERSON[1], "nobody@nowhere"):
        with pytest.raises(CommandError, match="the row cannot be found"):
            clinic.erase("patient", guess)
        assert Erasure.objects.latest("pk").state == Erasure.State.DROPPED
    rule.delete()
    forget()
    clinic.run("INSERT INTO patient VALUES ('eve@e', 'Eve', '')")
    Erasure.objects.all().delete()
    rule = MaskRule.objects.create(table_pattern="*.patient", column_pattern="mail", when="ingest")
    forget()
    # The rule is lifted again, or not: what was stored without the key stays so.
    for lifted in (False, True):
        if lifted:
            rule.delete()
            forget()
        with pytest.raises(CommandError, match="the row cannot be found") as refused:
            clinic.erase(*PERSON)
        assert "of public.patient" in str(refused.value)
        act = Erasure.objects.latest("pk")
        assert act.state == (Erasure.State.DROPPED if lifted else Erasure.State.UNFINISHED)
        assert "0 changes" not in capsys.readouterr().out
    unfinished = Erasure.objects.earliest("pk")
    call_command("erase", go_on=unfinished.pk, leave_out="the record")
    unfinished.refresh_from_db()
    assert unfinished.state == Erasure.State.DONE
    assert "these rows have no recorded change" in capsys.readouterr().out


@pytest.mark.slow
def test_a_key_masked_at_ingest_is_not_forgotten_where_only_the_archive_has_its_changes(
    clinic, exported
) -> None:
    rule = MaskRule.objects.create(table_pattern="*.patient", column_pattern="mail", when="ingest")
    forget()
    clinic.live()
    archive = exported("archive", known=False)
    instance_settings.write("archive.target", str(archive), "alice")
    # Retention has deleted them from the record since.
    Change.objects.all().delete()
    Transaction.objects.all().delete()
    rule.delete()
    forget()
    with pytest.raises(
        CommandError, match="the record no longer has 6 changes whose key is masked"
    ):
        clinic.erase(*PERSON)
    assert Erasure.objects.latest("pk").state == Erasure.State.UNFINISHED
    assert files_holding("PLANTED Ann", archive)


@pytest.mark.slow
def test_it_is_counted_again_before_it_is_called_done(clinic, exported, monkeypatch) -> None:
    clinic.live()
    folder = exported("one")
    erase = ErasureRoot.erase
    monkeypatch.setattr(ErasureRoot, "erase", lambda self, *_: self.look())
    with pytest.raises(
        CommandError, match=r"after the erasure, 4 places in export .* still contain"
    ):
        clinic.erase(*PERSON)
    monkeypatch.setattr(ErasureRoot, "erase", erase)
    act = Erasure.objects.get()
    assert act.state == Erasure.State.UNFINISHED
    call_command("erase", go_on=act.pk)
    act.refresh_from_db()
    assert act.state == Erasure.State.DONE
    assert files_holding("PLANTED Ann", folder) == []


@pytest.mark.slow
def test_every_place_of_a_name_in_files_is_counted_again(clinic, exported) -> None:
    say = "SELECT pg_logical_emit_message(true, 'app', '{}')"
    clinic.run(
        "INSERT INTO patient VALUES ('1', 'Ann', ''), ('2', 'Bob', '')",
        say.format("signed by an actor"),
        say.format("no name"),
        say.format("no name"),
    )
    by_actor, _, by_part, by_context = Transaction.objects.order_by("commit_seq")
    Transaction.objects.filter(pk=by_actor.pk).update(actor="actor")
    part = [{"seq": 0, "actor": "actor", "grade": "claimed"},
            {"seq": 1, "actor": "kept", "grade": "claimed"}]  # fmt: skip
    Transaction.objects.filter(pk=by_part.pk).update(actor="kept", actors=part)
    Transaction.objects.filter(pk=by_context.pk).update(context={"for": "an actor", "page": 7})
    folder, searched = exported("one"), exported("two", text="no such actor")
    home = (clinic.slot.source.name, clinic.slot.name)
    # The new name contains the former.
    wanted = FileErasure(
        erasure=7, day="2026-11-27", homes=[home], tables={}, actor="actor",
        alias="erased actor 7",
    )  # fmt: skip
    roots = [ErasureRoot.of(str(each), wanted) for each in (folder, searched)]
    # Two changes of patient, three transactions and one message; both manifests of a narrowed one.
    assert [root.left() for root in roots] == [2 + 3 + 1, 2]
    for root in roots:
        root.erase()
    assert [root.left() for root in roots] == [0, 0]
    [transactions] = folder.rglob("transactions/*/*.parquet")
    context = pq.read_table(transactions, partitioning=None).column("context").to_pylist()
    assert context[-1] == '{"for":"an erased actor 7","page":7}'


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ('{"$on": "2026-11-22", "$erased": true}', True),
        ('{"$erased":true,"$on":"2026-11-22"}', True),
        ('{"$masked": true}', False),
        ("NaN", False),
        (None, False),
    ],
)
def test_an_erased_value_is_recognized_in_any_order_of_its_mark(
    text: str | None, marked: bool
) -> None:
    assert is_mark(text, "$erased") is marked
