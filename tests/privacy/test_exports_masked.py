"""Exports, and pages that read exported files, show no masked value and no hidden table."""

import json
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.test import Client

from replview.access.visibility import forget, reading_session, use_visibility, visibility_for
from replview.access.withheld import masked_for
from replview.acts.sources import rename_source
from replview.features.exports.outlook import outlook_of
from replview.features.exports.request import read_export_request
from replview.features.peeks.job import without_masked
from replview.parquet import reading
from replview.parquet.reading import read_typed, read_untyped
from replview.parquet.reading.connecting import StoreProblem
from replview.parquet.reading.slice_tables import tables_of
from replview.parquet.slices import Slice
from replview.parquet.writing.exporting import export
from replview.parquet.writing.layout import slice_digest
from replview.parquet.writing.planning import sizes_of
from replview.parquet.writing.targets import Target
from replview.spark.options import Options
from replview.store.connecting import store_conninfo
from replview.store.django_session import current_rules
from replview.store.models import (
    AccessRecord,
    ArchiveMark,
    Export,
    HistoryJob,
    MaskRule,
    Quarantine,
    RelationVersion,
    SlotPeek,
    Source,
    Transaction,
)
from replview.store.read.rows import signed_hash
from replview.store.read.transactions.listing import find_transactions
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.store.retention.tidy import make_partitions
from replview.targets.policy import Refused
from tests.support.history_rows import History, insert
from tests.support.people import make_user
from tests.support.searching import files_holding

pytestmark = pytest.mark.slow
PLANTED = "PLANTED"


class Shop(History):
    """Orders with planted notes, and a table of staff that not everybody may see."""

    def __init__(self) -> None:
        super().__init__()
        RelationVersion.objects.filter(pk=self.orders.pk).update(
            columns=[
                {"name": "id", "type": "integer", "type_oid": 23, "key": True},
                {"name": "status", "type": "text", "type_oid": 25, "key": False},
                {"name": "note", "type": "integer", "type_oid": 23, "key": False},
            ]
        )
        self.staff = self.table("staff", 16400, ["id", "pay"])
        orders, staff = str(self.orders.relation_id), str(self.staff.relation_id)
        key = {"key_hash": signed_hash(["1"])}
        first = {"id": "1", "status": "PLANTED new", "note": "777001"}
        self.commit(
            {**insert(1), "new": first, **key},
            {**insert(2), "new": {"id": "2", "status": None, "note": None}},
            relations={orders: [2, 0, 0, 0]},
        )
        second = {"id": "1", "status": "PLANTED paid", "note": "777002"}
        self.commit({"op": "U", "new": second, **key}, relations={orders: [0, 1, 0, 0]})
        pay = {"op": "I", "new": {"id": "9", "pay": "PLANTED pay"}, "version": self.staff}
        self.commit(pay, relations={staff: [1, 0, 0, 0]})


@pytest.fixture
def shop(transactional_db, settings, tmp_path: Path) -> Shop:
    """Nothing is masked yet."""
    settings.DATA_DIR, settings.STORE_URL = tmp_path, "the test's"
    make_partitions()
    forget()
    yield Shop()
    forget()


def masked(*columns: str, table: str = "public.orders", when: str = "display") -> None:
    """Rules that hold at once."""
    for column in columns:
        MaskRule.objects.create(table_pattern=table, column_pattern=column, when=when)
    forget()


def written(shop: Shop, folder: Path, **wanted) -> tuple[Slice, list[dict]]:
    """An export as somebody asks for it; its orders' rows."""
    part = read_export_request(shop.slot, {}, **wanted).slice
    manifest = export(part, Target.of(str(folder)), dsn=store_conninfo())
    paths = [folder / f["path"] for f in manifest.files if "public.orders" in f["dataset"]]
    return part, [r for p in paths for r in pq.read_table(p, partitioning=None).to_pylist()]


@pytest.mark.parametrize("before", ["sent", "derived", "full"])
def test_an_export_holds_no_masked_value_and_says_which(shop: Shop, tmp_path, before) -> None:
    masked("status", "note")
    if before == "full":
        # The value that this change did not send comes from the record, and is masked as well.
        unsent = {"op": "U", "new": {"id": "1", "note": "777003"}, "key_hash": signed_hash(["1"])}
        shop.commit(unsent, relations={str(shop.orders.relation_id): [0, 1, 0, 0]})
    part, rows = written(shop, tmp_path / "out", before=before)
    orders = next((tmp_path / "out").glob("*/*/public.orders"))
    assert files_holding(PLANTED, orders) == files_holding("777001", orders) == []
    assert dict(part.masked) == {"public.orders": ("note", "status")}
    told = json.loads(next((tmp_path / "out").glob("*/*/_manifest.json")).read_text())
    assert told["masked"] == {"public.orders": ["note", "status"]}
    marks = [dict(row["_pg_raw"]) for row in rows if row["id"] == 1]
    assert len(marks) == {"sent": 2, "derived": 3, "full": 5}[before]
    assert not any(row["_not_sent"] for row in rows)
    assert all(set(mark) == {"note", "status"} for mark in marks)
    assert {row["status"] for row in rows} == {row["note"] for row in rows} == {None}
    # Nor how long it is.
    [transactions] = (tmp_path / "out").glob("*/*/transactions/**/*.parquet")
    sizes = pq.read_table(transactions, partitioning=None).to_pydict()["size_bytes"]
    assert None in sizes
    assert len(sizes) - sizes.count(None) == 1
    # Nobody is told that it was NULL.
    assert [set(dict(row["_pg_raw"])) for row in rows if row["id"] == 2] == [{"note", "status"}]


def test_a_slice_without_masks_is_the_one_it_always_was(shop: Shop) -> None:
    part = read_export_request(shop.slot, {}).slice
    assert "masked" not in part.to_json()
    digest = slice_digest(part)
    masked("status")
    other = read_export_request(shop.slot, {}).slice
    assert slice_digest(other) != digest
    assert Slice.from_json(orjson.loads(orjson.dumps(other.to_json()))) == other


def test_since_last_is_refused_where_the_masks_are_others(shop: Shop, tmp_path) -> None:
    part, _ = written(shop, tmp_path / "out")
    Export.objects.create(
        slot=shop.slot, slot_name=str(shop.slot), name="daily", slice=part.to_json(),
        target=str(tmp_path / "out"), requested_by="ann", requested_how="page", state="done",
        result={"tables": [{"schema": "public", "table": "orders"}]},
    )  # fmt: skip
    assert read_export_request(shop.slot, {}, name="daily", since_last=True).empty
    masked("status")
    with pytest.raises(Refused, match="status is masked now"):
        read_export_request(shop.slot, {}, name="daily", since_last=True)
    MaskRule.objects.all().delete()
    masked("pay", table="public.staff")
    assert read_export_request(shop.slot, {}, name="daily", since_last=True).empty


def test_the_data_source_masks_by_the_stores_rules_unless_told_otherwise(shop: Shop) -> None:
    masked("STAT*")
    with reading.connect(store_conninfo()) as store:

        def rows(**options: str) -> str:
            asked = Options.parse({"dsn": store_conninfo(), **options})
            part = asked.shown(store, reading.resolve(store, asked.request))
            tables = tables_of(store, part)
            typed = [batch.to_pylist() for t in tables for batch in read_typed(store, part, t)]
            untyped = [batch.to_pylist() for batch in read_untyped(store, part)]
            return str([typed, untyped])

        assert "PLANTED paid" not in rows()
        assert "777001" in rows()
        assert "PLANTED paid" in rows(masked="none")
        assert "777001" not in rows(masked='{"public.orders": ["note"]}')
        assert "PLANTED pay'" in rows(masked="none")
        assert "PLANTED pay'" not in rows(excluded="public.staff", masked="none")
        with pytest.raises(StoreProblem, match="masked is rules, none"):
            rows(masked="some")
        with pytest.raises(StoreProblem, match="among the excluded"):
            rows(relation="public.staff", excluded="public.staff")


def test_rules_are_matched_as_pages_match_them(shop: Shop) -> None:
    from replview.parquet.reading.masks import rules_of
    from replview.store.read.mask_rules import masked_by, named_columns

    for table, column, kind in [
        ("public.orders", "note", ""), ("ORDERS", "st*", "text"), ("*", "*", "int*"),
        ("other.*", "*", ""), ("orders", "id", "json*"), ("sta*", "pay", "numeric"),
    ]:  # fmt: skip
        MaskRule.objects.all().delete()
        MaskRule.objects.create(table_pattern=table, column_pattern=column, type_pattern=kind)
        with reading.connect(store_conninfo()) as store:
            found = rules_of(store, shop.incarnation.pk)
        for version in RelationVersion.objects.all():
            columns = named_columns(version.columns)
            mine = masked_by(
                current_rules(), shop.slot.source_id, version.schema, version.table, columns
            )
            assert found.get(f"{version.schema}.{version.table}", set()) == set(mine), table


@pytest.fixture
def restricted(shop: Shop):
    """An operator who may see the orders alone."""
    return make_user("olga", "operator", sources=[shop.slot.source], tables=["public.orders"])


def test_a_hidden_table_is_not_taken_out(shop: Shop, restricted, tmp_path) -> None:
    Transaction.objects.update(context={"request": "told by a message"})
    with use_visibility(visibility_for(restricted)):
        export_request = read_export_request(shop.slot, {})
        assert export_request.slice.tables == ("public.orders",)
        assert export_request.left_out == ("tables you have no right to see",)
        with pytest.raises(Refused, match=r"no right to see values of public\.staff"):
            read_export_request(shop.slot, {"tables": "public.staff"})
        written(shop, tmp_path / "out")
    # Who has the right on every table there is has none on messages, which no table's name lets in.
    source = shop.slot.source
    with use_visibility(
        visibility_for(make_user("pat", "operator", sources=[source], tables=["public.*"]))
    ):
        assert set(read_export_request(shop.slot, {}).slice.tables) == {
            "public.orders",
            "public.staff",
        }
    assert files_holding("PLANTED pay", tmp_path / "out") == []
    assert files_holding("told by a message", tmp_path / "out") == []
    client = Client()
    client.force_login(restricted)
    page = client.get("/exports/?tables=public.staff").text
    assert "no right to see values" in page
    assert PLANTED not in page


def test_files_written_before_are_shown_by_the_rules_of_now(shop, restricted, tmp_path) -> None:
    Transaction.objects.update(context={"request": "told by a message"})
    part, _ = written(shop, tmp_path / "exports" / "out")
    folder = tmp_path / "exports" / "out"
    manifest = json.loads(next(folder.glob("*/*/_manifest.json")).read_text())
    row = Export.objects.create(
        slot=shop.slot, slot_name=str(shop.slot), slice=part.to_json(), target=str(folder),
        requested_by="ann", requested_how="page", state="done", result=manifest,
    )  # fmt: skip
    job = HistoryJob.objects.create(
        job="as-of", root=str(folder), requested_by="ann", state="done",
        words={"table": "public.orders", "incarnation": "shop/replview-1"},
        result={"columns": ["id", "status", "_pg_raw"], "complete": True,
                "rows": [["1", "PLANTED paid", '{"status":"PLANTED"}']]},
    )  # fmt: skip
    admin, olga = Client(), Client()
    admin.force_login(make_user("ada", "admin"))
    olga.force_login(restricted)
    assert PLANTED in admin.get(f"/exports/{row.pk}/").text
    assert PLANTED in admin.get(f"/history/{job.pk}/").text
    looks = AccessRecord.objects.filter(action="viewed_rows").order_by("id")
    assert [(one.subject, one.tables, one.details["rows"]) for one in looks] == [
        (f"export {row.pk}", ["public.orders"], 3), (f"history job {job.pk}", ["public.orders"], 1),
    ]  # fmt: skip
    rename_source(shop.slot.source, "store", by="ann")
    MaskRule.objects.create(
        source=shop.slot.source, table_pattern="orders", column_pattern="status", when="display"
    )
    masked("note")
    for page in (f"/exports/{row.pk}/", f"/history/{job.pk}/"):
        assert PLANTED not in admin.get(page).text
        assert PLANTED not in olga.get(page).text
    # Transactions are shown if the export wrote no table's rows.
    kept = [one for one in manifest["files"] if one["dataset"].endswith("transactions")]
    Export.objects.update(result={**manifest, "files": kept})
    assert "told by a message" in admin.get(f"/exports/{row.pk}/").text
    assert "told by a message" not in olga.get(f"/exports/{row.pk}/").text
    assert masked_for("shop/replview-1")["public.orders"] == ["note", "status"]
    words = {"job": "as-of", "incarnation": "shop/replview-1", "table": "public.staff"}
    refused = olga.post("/history/new/", {**words, "root": str(folder)})
    assert refused.status_code == 422
    assert not HistoryJob.objects.exclude(pk=job.pk).exists()
    # The slot is removed; its source is there, and so is the source's rule.
    HistoryJob.objects.update(words={**job.words, "incarnation": "store/replview-1"})
    shop.slot.delete()
    assert PLANTED not in admin.get(f"/history/{job.pk}/").text


def test_a_stranger_to_the_source_finds_no_export_of_it(shop: Shop) -> None:
    row = Export.objects.create(
        slot=shop.slot, slot_name=str(shop.slot), slice={}, target="/x", requested_by="ann",
        requested_how="page", state="done",
    )  # fmt: skip
    job = HistoryJob.objects.create(
        job="as-of", root="/x", requested_by="ann", words={"incarnation": "shop/replview-1"}
    )
    other = Source.objects.create(name="other", conninfo="")
    client = Client()
    client.force_login(make_user("otto", "operator", sources=[other]))
    for page in (f"/exports/{row.pk}/", f"/exports/{row.pk}/log/", f"/history/{job.pk}/"):
        assert client.get(page).status_code == 404
    for page in ("/exports/all/", "/history/all/"):
        assert "shop/replview" not in client.get(page).text
    # An account that sees only this source finds them.
    client.force_login(make_user("sam", "operator", sources=[shop.slot.source]))
    for page in (f"/exports/{row.pk}/", f"/history/{job.pk}/"):
        assert client.get(page).status_code == 200


def test_a_text_that_somebody_typed_is_told_to_no_other(shop: Shop, restricted, tmp_path) -> None:
    part = {"narrowed": {"text": PLANTED, "states": []}}
    row = Export.objects.create(
        slot=shop.slot, slot_name=str(shop.slot), slice=part, target="/x", requested_by="ada",
        words={"q": PLANTED, "ops": "U"}, requested_how="page", state="done",
        result={"slice": part, "files": []},
    )  # fmt: skip
    ada, olga = Client(), Client()
    ada.force_login(make_user("ada", "admin"))
    olga.force_login(restricted)
    pages = (f"/exports/{row.pk}/", "/exports/all/", "/exports/?slot=shop/replview")
    calls = (f"/api/v1/exports/{row.pk}", "/api/v1/exports")
    # Spark's own errors quote values: its log is for those from whom nothing is withheld.
    (log := tmp_path / "job.log").write_text(f"[CAST_INVALID_INPUT] {PLANTED} is no number")
    job = HistoryJob.objects.create(
        job="as-of", root="/x", words={"incarnation": "shop/replview-1"}, requested_by="olga",
        log_path=str(log),
    )  # fmt: skip
    for address in (*pages, *calls, f"/history/{job.pk}/log/"):
        assert PLANTED not in olga.get(address).text, address
        assert PLANTED in ada.get(address).text, address
    masked("status")
    assert PLANTED in ada.get(pages[0]).text
    assert ada.get(f"/history/{job.pk}/log/").status_code == 403
    Export.objects.update(requested_by="olga")
    assert PLANTED not in ada.get(pages[0]).text


def test_the_archive_answers_without_what_is_withheld(shop: Shop, restricted, tmp_path) -> None:
    Transaction.objects.update(context={"request": "told by a message"})
    written(shop, tmp_path / "archive")
    ArchiveMark.objects.create(
        incarnation=shop.incarnation, target=str(tmp_path / "archive"), through_seq=3, since_seq=1
    )
    Transaction.objects.all().delete()
    admin, olga = Client(), Client()
    admin.force_login(make_user("ada", "admin"))
    olga.force_login(restricted)
    address = "/archive/transaction/?slot=shop/replview&incarnation=1&seq={}"
    assert "PLANTED pay" in admin.get(address.format(3)).text
    page = olga.get(address.format(3)).text
    assert "no right to see values" in page
    assert PLANTED not in page
    # Nor what was told by messages, of which she may see none.
    assert "told by a message" not in page
    assert "told by a message" in admin.get(address.format(3)).text
    assert PLANTED in olga.get(address.format(1)).text
    masked("status", "note")
    for seq in (1, 2):
        assert PLANTED not in admin.get(address.format(seq)).text
    rows = admin.get("/archive/row/?slot=shop/replview&table=public.orders&key.id=1")
    assert rows.status_code == 200
    assert "777002" not in rows.text


def test_looks_and_quarantine_show_nothing_masked(shop: Shop, restricted) -> None:
    changes = [
        {"op": "insert", "schema": "public", "table": "orders", "key": {"id": "1"}, "old": None,
         "new": {"id": "1", "status": "PLANTED", "note": "1"}},
        {"op": "insert", "schema": "public", "table": "staff", "key": {"id": "9"}, "old": None,
         "new": {"id": "9", "pay": "PLANTED pay"}},
    ]  # fmt: skip
    masked("note", when="ingest")
    kept = without_masked({"first_changes": changes}, shop.slot.source, ingest_alone=True)
    assert kept["first_changes"][0]["new"]["note"] == {"$masked": True}
    assert kept["first_changes"][0]["new"]["status"] == "PLANTED"
    look = SlotPeek.objects.create(
        source=shop.slot.source, slot_name="x", max_changes=9, max_seconds=1, state="done",
        result={"first_changes": changes},
    )  # fmt: skip
    stopped = Quarantine.objects.create(
        slot=shop.slot, incarnation=shop.incarnation, relation="public.staff", tag="I",
        raw=b"PLANTED pay", raw_bytes=11, cause="", remedy="",
    )  # fmt: skip
    admin, olga = Client(), Client()
    admin.force_login(make_user("ada", "admin"))
    olga.force_login(restricted)
    raw = f"/slots/shop/replview/quarantine/{stopped.pk}/raw"
    assert "PLANTED pay" in admin.get(f"/peeks/{look.pk}/").text
    page = olga.get(f"/peeks/{look.pk}/").text
    assert "no right to see values" in page
    assert "PLANTED pay" not in page
    masked("status")
    masked("pay", table="staff")
    assert PLANTED not in admin.get(f"/peeks/{look.pk}/").text
    for client in (admin, olga):
        shown = client.get(f"{raw}/")
        assert "Not shown" in shown.text, shown.status_code
    # Under another name that the table had.
    shop.table("people", 16400, ["id", "pay"], number=2)
    Quarantine.objects.update(relation="public.people")
    assert "Not shown" in admin.get(f"{raw}/").text
    renamed = [{**changes[1], "table": "people"}]
    SlotPeek.objects.update(result={"first_changes": renamed})
    assert PLANTED not in admin.get(f"/peeks/{look.pk}/").text
    kept = without_masked({"first_changes": renamed}, shop.slot.source, ingest_alone=False)
    assert PLANTED not in str(kept)


def test_the_command_masks_too(shop: Shop, capsysbinary) -> None:
    masked("status", "note")
    masked("pay", table="staff")
    call_command("changes", slot=str(shop.slot))
    said = capsysbinary.readouterr().out.decode()
    assert said.count('{"$masked":true}') == 7
    assert PLANTED not in said


def test_no_export_tells_by_a_least_size_how_long_a_withheld_value_is(
    shop: Shop, restricted
) -> None:
    orders, staff = str(shop.orders.relation_id), str(shop.staff.relation_id)
    message = {"op": "M", "new": {"prefix": "app", "content": "x", "transactional": True}}
    shop.commit(insert(5), relations={orders: [1, 0, 0, 0]}, size_bytes=48151)
    shop.commit(insert(6), relations={staff: [1, 0, 0, 0]}, size_bytes=48152)
    shop.commit(message, state="message", size_bytes=48153)

    def transactions() -> tuple[int, ...]:
        """Return how many transactions an export and the page find for each least size."""
        words = [{"min_bytes": str(48151 + more), "slot": str(shop.slot)} for more in range(3)]
        with reading.connect(store_conninfo()) as store:
            found = [sizes_of(store, read_export_request(shop.slot, w).slice) for w in words]
        listed = [find_transactions(reading_session(), TransactionFilter.from_words(w))
                  for w in words]  # fmt: skip
        assert [len(page.rows) for page in listed] == [each.transactions for each in found]
        return tuple(each.transactions for each in found)

    assert transactions() == (3, 2, 1)
    with use_visibility(visibility_for(restricted)):
        assert transactions() == (1, 0, 0)
    masked("status")
    assert transactions() == (2, 2, 1)


def test_a_text_is_not_looked_for_in_what_is_withheld(shop: Shop, restricted) -> None:
    orders, staff = str(shop.orders.relation_id), str(shop.staff.relation_id)
    shop.commit(
        {**insert(5), "new": {"id": "5", "status": "PLANTED five", "note": None}},
        {"op": "I", "new": {"id": "5", "pay": "PLANTED bonus"}, "version": shop.staff},
        relations={orders: [1, 0, 0, 0], staff: [1, 0, 0, 0]},
    )

    def transactions(text: str) -> int:
        with reading.connect(store_conninfo()) as store:
            return sizes_of(store, read_export_request(shop.slot, {"q": text}).slice).transactions

    assert (transactions("planted five"), transactions("planted bonus")) == (1, 1)
    with use_visibility(visibility_for(restricted)):
        assert (transactions("planted five"), transactions("planted bonus")) == (1, 0)
    masked("status")
    assert (transactions("planted five"), transactions("planted bonus")) == (0, 1)


def test_no_estimate_reveals_the_size_of_a_withheld_value(shop: Shop, restricted) -> None:
    orders, staff = str(shop.orders.relation_id), str(shop.staff.relation_id)
    unsent = {"op": "U", "new": {"id": "1"}, "key_hash": signed_hash(["1"])}
    shop.commit(
        unsent,
        {"op": "I", "new": {"id": "5", "pay": "PLANTED bonus"}, "version": shop.staff},
        relations={orders: [0, 1, 0, 0], staff: [1, 0, 0, 0]},
    )

    def estimates(size: int, **touching: str) -> list[dict]:
        """The estimates for a plain request and one for large transactions, at this size."""
        of_them = Transaction.objects.filter(**touching)
        of_them.update(size_bytes=size)
        asked = ({}, {"min_bytes": "5000"})
        return [outlook_of(read_export_request(shop.slot, each)).facts() for each in asked]

    assert estimates(100) != estimates(9_000)
    estimates(100)
    with use_visibility(visibility_for(restricted)):
        assert estimates(100, relations__has_key=staff) == estimates(
            9_000, relations__has_key=staff
        )
    masked("status")
    assert estimates(100, relations__has_key=orders) == estimates(9_000, relations__has_key=orders)
    assert {name for _, name in outlook_of(read_export_request(shop.slot, {})).unsent} == {"note"}


def test_a_size_that_covers_a_hidden_table_is_not_exported(shop: Shop, restricted, tmp_path):
    orders, staff = str(shop.orders.relation_id), str(shop.staff.relation_id)
    shop.commit(
        {**insert(5), "new": {"id": "5", "status": "PLANTED five", "note": None}},
        {"op": "I", "new": {"id": "5", "pay": "PLANTED bonus"}, "version": shop.staff},
        relations={orders: [1, 0, 0, 0], staff: [1, 0, 0, 0]},
    )
    with use_visibility(visibility_for(restricted)):
        written(shop, tmp_path / "out")
    [transactions] = (tmp_path / "out").glob("*/*/transactions/**/*.parquet")
    sizes = pq.read_table(transactions, partitioning=None).to_pydict()["size_bytes"]
    assert [size is None for size in sizes] == [False, False, True]
