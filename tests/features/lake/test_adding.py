"""A lake is added, scheduled and removed on its pages, by the rules of the command."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.http import HttpResponse
from django.test import Client

from replview.features.lake.request import add
from replview.store import instance_settings
from replview.store.models import AccessRecord, Lake, LakeRelation
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user

FIELDS = {"slot": "shop/replview", "tables": ["public.orders", "public.people"], "name": "sales",
          "root": "sales", "format": "iceberg", "every_minutes": "15"}  # fmt: skip


@pytest.fixture
def history(transactional_db, settings, tmp_path: Path) -> History:
    """A slot with an order and a person."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    history = History()
    history.commit(insert(1))
    people = history.table("people", 16385, ["id", "name"])
    history.commit({"op": "I", "new": {"id": "1"}, "version": people})
    return history


def client(role: str = "operator", **more: object) -> Client:
    client = Client()
    client.force_login(make_user("alice", role, **more))  # type: ignore[arg-type]
    return client


def html_of(answer: HttpResponse, status: int = 200) -> str:
    assert answer.status_code == status
    return spaced(answer.content.decode())


def refusal(reader: Client, **fields: object) -> str:
    """Return the page that refuses a lake with these fields."""
    page = html_of(reader.post("/lakes/new/", {**FIELDS, **fields}), 422)
    assert not Lake.objects.exists()
    return page


def test_the_page_adds_what_its_fields_say(history: History, tmp_path: Path) -> None:
    reader = client()
    answer = reader.post("/lakes/new/", FIELDS)
    lake = Lake.objects.get()
    assert answer["Location"] == f"/lakes/{lake.pk}/"
    assert (lake.name, str(lake.slot), lake.format) == ("sales", "shop/replview", "iceberg")
    assert (lake.root, lake.every_minutes) == (str(tmp_path / "exports" / "sales"), 15)
    assert (lake.slot_name, lake.added_by) == ("shop/replview", "alice")
    assert [one.name for one in lake.relations.all()] == ["public.orders", "public.people"]
    record = AccessRecord.objects.latest("pk")
    assert (record.subject, record.details["act"]) == ("lake sales", "added")


def test_a_link_is_a_lake_that_is_ready_and_its_command(history: History, tmp_path: Path) -> None:
    reader = client()
    words = {**FIELDS, "tables": ",".join(FIELDS["tables"])}
    page = html_of(reader.get(f"/lakes/new/?{urlencode(words)}"))
    root = tmp_path / "exports" / "sales"
    assert "<b>Ready to add lake sales.</b>" in page
    command = (f"replview lake add sales --slot shop/replview --root {root} --format iceberg "
               "--table public.orders --table public.people")  # fmt: skip
    assert f'data-copy="{command} replview lake schedule sales 15"' in page
    assert "as <b>Iceberg tables</b> in <b>" in page
    assert not Lake.objects.exists()


def test_only_the_tables_have_to_be_chosen(history: History, tmp_path: Path) -> None:
    reader = client()
    page = html_of(reader.get("/lakes/new/"))
    assert "Next: choose its tables." in page
    assert 'class="field-error"' not in page
    field = page[page.index('name="root"') : page.index(f"A folder within {tmp_path / 'exports'}.")]
    assert field.count("id_root_helptext") == 2
    assert '<button class="btn" type="button" aria-disabled="true"' in page
    add(Lake(name="shop", slot=history.slot, format="delta", root="x"), ["public.people"],
        anywhere=True, base=tmp_path)  # fmt: skip
    reader.post("/lakes/new/", {"tables": "public.orders"})
    lake = Lake.objects.get(name="shop-2")
    assert (lake.format, lake.root) == ("delta", str(tmp_path / "exports" / "lake"))
    assert lake.every_minutes is None


def test_a_lake_is_named_after_its_source_as_far_as_its_name_may_be(history: History) -> None:
    source = history.slot.source
    source.name = "Bücher & mehr"
    source.save()
    client().post("/lakes/new/", {"tables": "public.orders"})
    assert Lake.objects.get().name == "B-cher-mehr"


def test_many_tables_are_added_at_once(history: History) -> None:
    names = [f"{'t' * 60}{number:03}" for number in range(70)]
    for number, name in enumerate(names):
        history.table(name, 20_000 + number, ["id"])
    answer = client().post(
        "/lakes/new/", {**FIELDS, "tables": [f"public.{name}" for name in names]}
    )
    assert answer.status_code == 302
    assert Lake.objects.get().relations.count() == 70


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tables": []}, "No table is chosen. Choose the tables that the lake is to keep."),
        ({"tables": ["public.x"]}, "Shop/replview has recorded no change of public.x. Recorded: "
         "public.orders, public.people."),
        ({"name": "a b"}, "A b is no name of a lake. Use letters, digits, &#x27;.&#x27;, "),
        ({"root": "/elsewhere"}, "may be written to. Name a folder relative to it"),
        ({"root": "s3://bucket/lake"}, "Only an admin may choose a target outside of the instance"),
        ({"every_minutes": "0"}, "0 is no number of minutes. Write one from 1 to 44640."),
        ({"every_minutes": "often"}, "Write a number from 1 to 44640, or leave it out."),
        ({"format": "hudi"}, "Choose Delta or Iceberg."),
    ],
)  # fmt: skip
def test_an_error_stands_beside_its_field(
    history: History, fields: dict[str, object], error: str
) -> None:
    page = refusal(client(), **fields)
    [name] = fields
    start = page.index(f'id="id_{name}_error"')
    assert error in page[start : page.index("</p>", start)]
    assert "<b>This lake cannot be added:</b>" in page


def test_a_name_and_a_place_belong_to_one_lake(history: History, tmp_path: Path) -> None:
    reader = client()
    reader.post("/lakes/new/", FIELDS)
    page = html_of(reader.post("/lakes/new/", FIELDS), 422)
    assert "There is a lake sales already. Choose another name." in page
    page = html_of(reader.post("/lakes/new/", {**FIELDS, "name": "again"}), 422)
    assert "Lake sales writes public.orders there already. Choose another root." in page
    assert Lake.objects.count() == 1


def test_an_admin_may_write_elsewhere(history: History) -> None:
    client("admin").post("/lakes/new/", {**FIELDS, "root": "s3://bucket/lake"})
    assert Lake.objects.get().root == "s3://bucket/lake"


def test_a_hidden_table_is_neither_offered_nor_added(history: History) -> None:
    reader = client(sources=[history.slot.source], tables=["public.orders"])
    assert "people" not in html_of(reader.get("/lakes/new/"))
    assert "You have no right to see values of public.people." in refusal(reader)
    # Nor does an answer tell whether there is a table without a right.
    assert "You have no right to see values of public.x." in refusal(reader, tables=["public.x"])


def test_the_switch_of_exports_forbids_lakes(history: History) -> None:
    instance_settings.write("exports.allowed", False, "root")
    reader = client()
    assert "Exports are switched off, and lakes with them." in refusal(reader)
    assert "switched off" in html_of(reader.get("/lakes/new/"))


def test_who_adds_removes_and_schedules(history: History) -> None:
    client("admin").post("/lakes/new/", FIELDS)
    viewer, operator = Client(), Client()
    viewer.force_login(make_user("vera", "viewer"))
    operator.force_login(make_user("otto", "operator"))
    lake = Lake.objects.get()
    assert viewer.get("/lakes/new/").status_code == 403
    assert viewer.post(f"/lakes/{lake.pk}/schedule/", {"every_minutes": "5"}).status_code == 403
    assert operator.post(f"/lakes/{lake.pk}/remove/", {"typed": "sales"}).status_code == 403
    page = html_of(operator.get(f"/lakes/{lake.pk}/"))
    assert '<button class="btn btn-danger" disabled title="needs the role admin">Remove' in page


def test_a_schedule_is_set_and_ended(history: History) -> None:
    reader = client()
    reader.post("/lakes/new/", FIELDS)
    lake = Lake.objects.get()
    address = f"/lakes/{lake.pk}/schedule/"
    assert 'name="every_minutes" value="15"' in html_of(reader.get(f"/lakes/{lake.pk}/"))
    for text, minutes in (("5", 5), ("", None)):
        answer = reader.post(address, {"every_minutes": text})
        assert answer["Location"] == f"/lakes/{lake.pk}/"
        lake.refresh_from_db()
        assert lake.every_minutes == minutes
    page = html_of(reader.post(address, {"every_minutes": "44641"}), 422)
    assert "44641 is no number of minutes. Write one from 1 to 44640." in page
    lake.refresh_from_db()
    assert lake.every_minutes is None


def test_a_lake_is_removed_once_its_name_is_typed(history: History, tmp_path: Path) -> None:
    reader = client("admin")
    reader.post("/lakes/new/", FIELDS)
    lake = Lake.objects.get()
    kept = tmp_path / "exports" / "sales" / "shop" / "replview" / "public~2Eorders"
    kept.mkdir(parents=True)
    page = html_of(reader.post(f"/lakes/{lake.pk}/remove/", {"typed": "sale"}), 422)
    assert "Nothing is removed: type sales to confirm." in page
    reader.post(f"/lakes/{lake.pk}/run/", {"action": "run"})
    page = html_of(reader.post(f"/lakes/{lake.pk}/remove/", {"typed": "sales"}), 422)
    assert "Lake sales is busy: run" in page
    reader.post(f"/lakes/{lake.pk}/cancel/")
    answer = reader.post(f"/lakes/{lake.pk}/remove/", {"typed": "sales"})
    assert answer["Location"] == "/lakes/"
    assert not LakeRelation.objects.exists()
    assert kept.is_dir()
    assert AccessRecord.objects.latest("pk").details["act"] == "removed"
