"""The export pages: the sentence, the verdict, what they refuse, and what they record."""

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client

from replview.access.rights import Role, set_role
from replview.features.exports import outlook
from replview.features.exports.page import ExportPage, export_words, read_export_page
from replview.features.exports.record import read_record
from replview.store import instance_settings
from replview.store.models import Export
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.page_elements import elements, spaced
from tests.support.people import make_user

#: Types of input whose label stands around them, or that have none.
_UNLABELLED = ("hidden", "checkbox")


@pytest.fixture
def history(transactional_db, settings, tmp_path) -> History:
    """Two transactions of orders, committed, where another connection sees them too."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    made = History()
    made.commit(insert(1), insert(2), relations={str(made.orders.relation_id): [2, 0, 0, 0]})
    made.commit(insert(3), actor="alice")
    return made


@pytest.fixture
def client(history: History) -> Client:
    """Signed in, an operator."""
    client = Client()
    client.force_login(make_user("alice"))
    return client


def page_of(history: History, query: str = "") -> ExportPage:
    """Return the page of an address, as an operator has it."""
    words = export_words(QueryDict(query))
    return read_export_page(history.slot, words, anywhere=False, tested=None)


def html_of(client: Client, address: str) -> str:
    return spaced(client.get(address).content.decode())


def test_the_page_renders(history: History, client: Client) -> None:
    page = html_of(client, "/exports/?slot=shop/replview&actor=alice&q=ALICE&min_changes=1&to=mine")
    assert "<b>Ready: 1 row, about" in page
    assert ">public.orders</td>" in page
    assert "Read the files" in page
    key = str(history.orders.relation_id)
    history.commit({"op": "U", "new": {"id": "3"}}, relations={key: [0, 1, 0, 0]})
    whole = html_of(client, "/exports/?to=mine")
    assert "not sent 1 time, see _not_sent" in whole
    orders = whole.split(">public.orders</td>")[1].split("</tr>")[0]
    rows, size, files = re.findall(r'<td class="num">\s*(.*?)\s*</td>', orders)
    assert (rows, files) == ("4", "1")
    assert "kB" in size
    assert 'value="alice"' in page
    assert "Export <b>all changes</b> of <b>all tables</b>" in page
    fields = elements(page)
    labelled = {
        label.attributes["for"] for label in fields.all("label") if "for" in label.attributes
    }
    for field in fields.one("form", id="slice").all():
        if field.tag in ("input", "select") and field.attributes.get("type") not in _UNLABELLED:
            assert field.attributes["id"] in labelled
    assert str(Path("exports") / "mine") in page
    # Carried on by the sentence's form, and taken off by its chip.
    assert '<input type="hidden" name="q" value="ALICE">' in page
    without = "/exports/?slot=shop/replview&amp;actor=alice&amp;min_changes=1&amp;to=mine"
    assert f'href="{without}"' in page
    assert 'aria-disabled="true"' not in page
    page = html_of(client, "/exports/?since=2030-01-01T00:00:00Z")
    assert "<b>Empty slice:</b>" in page
    assert 'aria-disabled="true"' in page
    page = html_of(client, '/exports/?actor="><script>x</script>&to="><i>')
    assert "<script>x" not in page
    assert "<i>" not in page


def test_each_error_stands_beside_its_field(history: History, client: Client) -> None:
    wrong = {"since": "soon", "before": "never", "numeric_scale": "two", "to": "../x"}
    for answer in (client.get("/exports/", wrong), client.post("/exports/new/", wrong)):
        page = spaced(answer.content.decode())
        for name, error in (
            ("since", "This is not understood"),
            ("before", "Choose where the rows come from."),
            ("numeric_scale", "Write a number of digits from 0 to 38"),
            ("to", ".."),
        ):
            assert error in page.partition(f'id="id_{name}_error"')[2][:700], name
            assert f'id_{name}_error"' in page.partition(f'id="id_{name}_error"')[0]
    assert answer.status_code == 422
    assert not Export.objects.exists()


def test_the_address_is_the_sentence(history: History) -> None:
    page = page_of(history)
    assert page.sentence.title.startswith("Ready: 3 rows, about")
    assert page.sentence.ready
    assert page.outlook is not None
    assert [one.name for one in page.outlook.datasets] == ["public.orders", "transactions"]

    page = page_of(history, "slot=shop/replview&actor=alice&ops=I&to=mine")
    assert page.sentence.title.startswith("Ready: 1 row, about")
    assert (page.filter.actor, page.filter.ops) == ("alice", "I")
    assert page.target.endswith(str(Path("exports") / "mine"))

    page = page_of(history, "since=2030-01-01T00:00:00Z")
    assert (page.sentence.title, page.sentence.ready) == ("Empty slice:", False)
    page = page_of(history, "q=ALICE&min_changes=1&actor=%3F")
    assert page.sentence.title == "Empty slice:"
    page = page_of(history, "q=ALICE&min_changes=1")
    assert page.sentence.title.startswith("Ready: 1 row, about")
    assert page.removable == [
        ("with the text", "ALICE", "/exports/?slot=shop/replview&min_changes=1"),
        ("of at least", "1 change", "/exports/?slot=shop/replview&q=ALICE"),
    ]
    assert page.kept == [("q", "ALICE"), ("min_changes", "1")]
    page = page_of(history, "where=status+%3D+new")
    assert "ignores a condition on values" in page.sentence.cause
    sentence = page_of(history, "states=open").sentence
    assert sentence.title == "This cannot be exported:"
    assert sentence.cause.startswith("no export is of transactions")


def test_the_fields_are_summed_up_in_a_sentence(history: History, tmp_path: Path) -> None:
    def summary(query: str) -> str:
        return "".join(f"{part.words} {part.value}" for part in page_of(history, query).summary)

    folder = tmp_path / "exports"
    assert summary("to=mine") == (
        "Export all changes of all tables from shop/replview, committed from the beginning to now,"
        " by anyone, as typed Parquet with rows before an update as the server sent them,"
        f" into {folder / 'mine'}"
    )
    query = (
        "ops=UD&tables=public.orders&since=2h&until=1h&actor=alice&q=ALICE&before=full&to=mine"
        "&numeric_scale=4&name=nightly&since_last=1"
    )
    assert summary(query) == (
        "Export updates and deletes of orders from shop/replview, committed from 2h to 1h, by alice"
        ", with the text ALICE, as typed Parquet with rows before an update whole, from the record"
        " and numeric without a precision with 4 digits, named nightly, only what is new since the"
        f" last of this name, into {folder / 'mine'}"
    )
    assert "rows before an update as in the last of" in summary("name=nightly&since_last=1")
    assert ", by nobody known, as" in summary("actor=?")
    assert summary("ops=zz").startswith("Export all changes of")
    assert summary("to=/etc").endswith(", into /etc")


def test_a_target_outside_of_the_folder_is_an_admins_alone(
    history: History, client: Client
) -> None:
    sentence = page_of(history, "to=/etc").sentence
    assert (sentence.title, sentence.ready) == ("This target cannot be written to:", False)
    assert "<b>This target cannot be written to:</b>" in html_of(client, "/exports/?to=/etc")
    refused = client.post("/exports/new/", {"slot": "shop/replview", "to": "../x"})
    assert refused.status_code == 422
    assert not Export.objects.exists()

    set_role(User.objects.get(username="alice"), Role.ADMIN)
    assert "<b>Ready:" in html_of(client, "/exports/?to=/tmp/elsewhere")


def test_what_is_asked_for_is_tried_recorded_and_cancelled(
    history: History, client: Client, tmp_path: Path
) -> None:
    words = {"slot": "shop/replview", "actor": "alice", "to": "mine"}
    page = client.post("/exports/test/", words, follow=True).content.decode()
    assert "test write passed" in page
    assert not (tmp_path / "exports" / "mine").exists()

    answer = client.post("/exports/new/", words)
    row = Export.objects.get()
    assert answer["Location"] == f"/exports/{row.pk}/"
    assert (row.state, row.requested_by, row.requested_how) == ("waiting", "alice", "page")
    assert row.target == str(tmp_path / "exports" / "mine")
    assert row.slice["actors"] == ["alice"]
    again = client.post("/exports/new/", words)
    assert again.status_code == 422
    refused = f"export {row.pk} of the same slice into the same target is waiting"
    assert refused in again.content.decode()
    assert "<b>Waiting for a worker,</b>" in html_of(client, answer["Location"])
    assert read_record(row).sentence.title == "Waiting for a worker,"

    client.post(f"/exports/{row.pk}/cancel/")
    row.refresh_from_db()
    assert read_record(row).sentence.title.startswith("Cancelled")
    every = html_of(client, "/exports/all/")
    assert f'href="/exports/{row.pk}/"' in every
    assert "<b>Exports are allowed:</b>" in every
    assert "Switch exports off" not in every


def test_a_switch_forbids_all_of_it(history: History, client: Client) -> None:
    instance_settings.write("exports.allowed", False, "root")
    assert page_of(history).sentence.title == "Exports are switched off."
    assert "<b>Exports are switched off:</b>" in html_of(client, "/exports/all/")
    refused = client.post("/exports/new/", {"slot": "shop/replview", "to": "mine"})
    assert refused.status_code == 422
    assert "exports are switched off on this instance" in refused.content.decode()
    # Nor may anybody but an admin allow them again.
    assert client.post("/exports/allowed/", {"allowed": "1"}).status_code == 403


def test_what_cannot_be_counted_soon_can_be_exported(
    history: History, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "BUDGET", "20ms")
    monkeypatch.setattr(outlook, "estimate", lambda store, _: store.execute("SELECT pg_sleep(9)"))
    page = page_of(history)
    assert page.sentence.title == "Ready, rows unknown:"
    assert page.sentence.cause.startswith("counting takes longer than")
    assert page.sentence.ready
    assert page.figures[0] == {
        "label": "Rows", "number": None, "rest": "counted while it runs", "main": True,
    }  # fmt: skip
    html = html_of(client, "/exports/")
    assert '<span class="unknown">unknown</span> counted while it runs' in html
    answer = client.post("/exports/new/", {"slot": "shop/replview", "to": "mine"})
    assert answer["Location"] == f"/exports/{Export.objects.get().pk}/"


def test_the_target_says_where_it_may_be(history: History, client: Client) -> None:
    html = html_of(client, "/exports/")
    field = html[html.index('name="to"') : html.index("A folder within")]
    assert 'aria-describedby="id_to_helptext"' in field
    assert 'id="id_to_helptext"' in field


def test_files_and_values_that_were_not_sent_are_told_before(history: History) -> None:
    key = str(history.orders.relation_id)
    paid = {"op": "U", "new": {"id": "3", "status": "paid"}}
    history.commit(paid, relations={key: [0, 1, 0, 0]})
    stock = history.table("stock", 16385, ["id", "at"])
    history.commit({"op": "I", "new": {"id": "1", "at": "x"}, "version": stock})
    page = page_of(history)
    notes = [column.note for tab in page.schema for column in tab.columns]
    assert any("not sent 1 time, see _not_sent" in note for note in notes)
    assert page.outlook is not None
    datasets = {one.name: one for one in page.outlook.datasets}
    assert (datasets["public.orders"].rows, datasets["public.orders"].files) == (4, 1)
    transactions = datasets["transactions"]
    assert (transactions.rows, transactions.files) == (4, 1)
    assert 1000 < (transactions.size_bytes or 0) < 1_000_000

    # The programs are of one table, chosen by the address.
    assert page.reading is not None
    assert page.reading.table == "public.orders"
    page = page_of(history, "read=public.stock")
    assert page.reading is not None
    assert page.reading.table == "public.stock"
    titles = [program.name for program in page.reading.programs]
    assert titles == ["pandas", "Polars", "DuckDB", "Spark"]
    for program in page.reading.programs:
        assert "/shop/replview-1/public.stock" in program.code
        assert "/shop/replview-1/public.orders" not in program.code


@pytest.mark.parametrize(
    ("target", "configured", "master"),
    [
        ("/exports", "", "local[2]"),
        ("file:///exports", "", "local[2]"),
        ("/exports", "spark://here:7077", "spark://here:7077"),
        ("s3://bucket/exports", "", ""),
        ("s3://bucket/exports", "spark://here:7077", "spark://here:7077"),
        ("az://container/exports", "spark://here:7077", ""),
    ],
)
def test_spark_writes_where_it_has_a_connector(
    history: History, monkeypatch: pytest.MonkeyPatch, target: str, configured: str, master: str
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    monkeypatch.setenv("REPLVIEW_SPARK_FROM_ROWS", "1")
    monkeypatch.setenv("REPLVIEW_SPARK", configured)
    request = page_of(history).export_request
    assert request is not None
    assert outlook.spark_for(request, target) == master
    # What cannot be counted in time is large.
    monkeypatch.setattr(outlook, "BUDGET", "20ms")
    monkeypatch.setattr(outlook, "estimate", lambda store, _: store.execute("SELECT pg_sleep(9)"))
    assert outlook.spark_for(request, target) == master
