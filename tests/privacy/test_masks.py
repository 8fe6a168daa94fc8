"""Mask rules and rights on tables: what they match, who makes them, what is withheld."""

import datetime as dt

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from replview.access.mask_making import (
    MaskProblem,
    add_rule,
    as_rule,
    matched_by,
    remove_rule,
    unsaved_rule,
)
from replview.access.visibility import (
    current_visibility,
    forget,
    reading_session,
    use_visibility,
    visibility_for,
)
from replview.features.history.record import read_history_record
from replview.features.lag.charts import read_table_rates
from replview.features.masks.forms import MaskForm
from replview.features.masks.page import build_masks_page
from replview.features.peeks.text import PeekResult, seen_sizes
from replview.receiver.mask_rules import MaskRules, withholds_raw
from replview.store.django_session import rows
from replview.store.models import (
    AccessRecord,
    HistoryJob,
    MaskRule,
    RelationMinute,
    RelationVersion,
)
from replview.store.read.changes.as_sql import undo_sql
from replview.store.read.changes.batches import Batching
from replview.store.read.changes.of_transaction import changes_of, matching_text
from replview.store.read.changes.scan import ChangeScan
from replview.store.read.changes.wanted import WantedChanges
from replview.store.read.mask_rules import NamedColumn, Rule, masked_by
from replview.store.read.row_history.as_of import row_as_of
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.keys import KeyProblem
from replview.store.read.row_widths import row_widths
from replview.store.read.value_filter import WhereProblem
from replview.store.read.visibility import MASKED, nobodys_visibility
from replview.store.retention.tidy import make_partitions
from replview.ui.changes.change_blocks import blocks_of
from replview.ui.sentence import Sentence
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user


@pytest.fixture
def history(db) -> History:
    make_partitions()
    found = History()
    shape = found.orders
    for column, kind in zip(
        shape.columns, ("integer", "text", "character varying(20)"), strict=True
    ):
        column["type"] = kind
    shape.save()
    shape.relation.current_version = shape
    shape.relation.save()
    return found


def client_of(**account) -> Client:
    cache.clear()
    client = Client()
    client.force_login(make_user(**account))
    return client


def mask(**words) -> MaskRule:
    return add_rule(unsaved_rule(**{"when": "display", "by": "test", **words}))


@pytest.mark.parametrize(
    ("rule", "masked"),
    [
        (("public.users", "e_mail", ""), {"e_mail"}),
        (("users", "*MAIL*", ""), {"e_mail"}),
        (("*.users", "*", "text*"), {"e_mail", "tags", "odd"}),
        (("public.users", "*", "text"), {"e_mail", "odd"}),
        (("public.*", "*", "jsonb"), {"doc", "odd"}),
        (("public.user", "*", ""), set()),
        (("pub.users", "*", ""), set()),
        (("public?users", "*", ""), set()),
    ],
)
def test_patterns(rule, masked) -> None:
    columns = [
        NamedColumn("id", "integer"),
        NamedColumn("e_mail", "text"),
        NamedColumn("tags", "text[]"),
        NamedColumn("doc", "jsonb"),
        # Nobody told its type: it may be of any.
        NamedColumn("odd", None),
    ]
    found = masked_by([Rule(1, None, *rule, "display")], 7, "public", "users", columns)
    assert found == dict.fromkeys(masked, "display") or (
        rule[1:] == ("*", "") and not masked and found == {}
    )


def test_a_rule_is_of_its_source_and_ingest_outweighs_display() -> None:
    rules = [Rule(1, 7, "t", "a", "", "ingest"), Rule(2, None, "t", "*", "", "display")]
    columns = [NamedColumn("a", "text"), NamedColumn("b", "text")]
    assert masked_by(rules, 7, "public", "t", columns) == {"a": "ingest", "b": "display"}
    assert masked_by(rules, 8, "public", "t", columns) == {"a": "display", "b": "display"}


def test_what_masks_everything_is_refused(db) -> None:
    with pytest.raises(MaskProblem, match="would mask everything"):
        unsaved_rule(table="*.*", column="*", when="ingest")
    with pytest.raises(MaskProblem, match="no source"):
        unsaved_rule(source="elsewhere", column="x", when="ingest")


def test_a_masked_value_is_a_mark_and_so_is_a_masked_null(history: History) -> None:
    made = history.commit(
        {"op": "I", "new": {"id": "1", "status": "secret", "note": None}},
        {"op": "D", "old": {"id": "1", "status": "x", "note": None}, "old_kind": "O"},
    )
    assert current_visibility().open
    mask(table="orders", column="status")
    mask(column="note")
    first, second = changes_of(reading_session(), made)
    assert first.new == {"id": "1", "status": MASKED, "note": MASKED}
    # The old row of a DELETE is masked as well, NULL included.
    assert second.old == {"id": "1", "status": MASKED, "note": MASKED}
    assert undo_sql(second).reason == "note is masked"
    assert matching_text(reading_session(), [made], "secret") == set()
    assert matching_text(reading_session(), [made], "1") == {made}


def test_versions_keep_what_was_masked_under_a_former_name(history: History) -> None:
    made = history.commit(insert(1))
    relation = history.orders.relation
    mask(table="public.orders", column="status")
    relation.table = "purchases"
    relation.save()
    forget()
    assert changes_of(reading_session(), made)[0].new["status"] == MASKED


def test_counts_of_changes_tell_nothing_of_what_is_withheld(history: History) -> None:
    columns = ["actor", "table", "operation", "column", "changes"]
    insert_row = ["bob", "public.orders", "insert", None, 5]
    note_row = ["alice", "public.orders", "update", "note", 3]
    result = {"columns": columns, "rows": [
        ["alice", "public.orders", "update", "status", 7], insert_row, note_row,
    ]}  # fmt: skip
    job = HistoryJob.objects.create(
        job="who-changed-what", root="/r", requested_by="alice", state="done", result=result,
        words={"incarnation": f"{history.slot}-1"},
    )  # fmt: skip
    mask(column="status")

    seen = read_history_record(job)
    assert [[cell.text for cell in cells] for cells in seen.rows] == [
        ["bob", "public.orders", "insert", "the whole row", "5"], [*note_row[:4], "3"],
    ]  # fmt: skip
    assert "tables=public.orders" in seen.rows[0][4].url
    assert ("withheld", "columns that you may not see") in seen.reported
    olga = make_user("olga", "viewer", sources=[history.slot.source], tables=["public.others"])
    with use_visibility(visibility_for(olga)):
        seen = read_history_record(job)
    assert [[cell.text for cell in cells] for cells in seen.rows] == [
        ["alice", "public.orders", "update", "no right to see values", "withheld"],
        ["bob", "public.orders", "insert", "the whole row", "5"],
    ]


def test_no_text_is_looked_for_in_a_column_that_came_later(history: History) -> None:
    history.commit(insert(1))
    mask(column="e_mail")
    assert matching_text(reading_session(), [history.commit(insert(2))], "PLANTED") == set()
    later = history.table("orders", 16384, ["id", "e_mail"], number=2)
    new = {"id": "3", "e_mail": "PLANTED"}
    made = history.commit({"op": "I", "new": new, "version": later})
    # The cached facts of the table may be a moment old, and then lack the column.
    assert matching_text(reading_session(), [made], "PLANTED") == set()
    forget()
    assert matching_text(reading_session(), [made], "PLANTED") == set()
    assert matching_text(reading_session(), [made], "3") == {made}


def test_a_search_under_way_ends_where_its_column_is_masked(history: History) -> None:
    for number in (1, 2, 3):
        history.commit(insert(number))
    words = {"table": "public.orders", "where": "status != x"}
    wanted = WantedChanges.from_words(history.slot, words)
    batches = ChangeScan(reading_session(), wanted, batching=Batching(1, 1)).batches()
    assert next(batches).found
    mask(column="status")
    with pytest.raises(WhereProblem, match=r"status of public\.orders is masked"):
        list(batches)


def test_a_row_is_not_found_by_a_masked_key(history: History) -> None:
    history.commit(insert(1, key_hash=1))
    mask(table="orders", column="id")
    relation = history.orders.relation_id
    with pytest.raises(KeyProblem, match=r"id of public\.orders is masked"):
        row_history(reading_session(), history.slot, relation, {"id": "1"})
    with pytest.raises(KeyProblem, match="is masked"):
        row_as_of(reading_session(), history.slot, relation, {"id": "1"})


def test_who_has_no_right_sees_that_something_changed(history: History) -> None:
    items = history.table("items", 16385, ["id", "what"])
    mine = history.commit(
        insert(1), {"op": "I", "new": {"id": "5", "what": "open"}, "version": items}
    )
    told = history.commit(
        {"op": "M", "new": {"prefix": "p", "content": "said", "transactional": True}}
    )
    viewer = make_user("eve", "viewer", sources=[history.slot.source], tables=["public.items"])
    with use_visibility(visibility_for(viewer)):
        hidden, shown = changes_of(reading_session(), mine)
        [message] = changes_of(reading_session(), told)
        assert matching_text(reading_session(), [mine, told], "new") == set()
        assert matching_text(reading_session(), [mine, told], "said") == set()
        assert matching_text(reading_session(), [mine, told], "open") == {mine}
    assert (hidden.op, hidden.table, hidden.hidden) == ("I", "orders", True)
    assert (hidden.new, hidden.key_hash, hidden.columns) == (None, None, [])
    assert shown.new == {"id": "5", "what": "open"}
    assert message.new == {"prefix": "p", "transactional": True}
    assert undo_sql(hidden).reason == "you have no right to see values of public.orders"


def test_a_viewers_pages_say_why_there_is_no_value(history: History) -> None:
    made = history.commit(insert(1))
    client = client_of(
        name="eve", role="viewer", sources=[history.slot.source], tables=["public.x"]
    )
    page = client.get(reverse("transaction", args=[made])).content.decode()
    assert "You have no right to see values of this table" in page
    assert "No column differs" not in page
    found = client.get(reverse("find"), {"slot": "shop/replview", "table": "public.orders",
                                         "where": "status = new"}).content.decode()  # fmt: skip
    assert "ou have no right to see values of public.orders" in found
    [record] = client.get(f"/api/v1/transactions/{made}/changes").json()["items"]
    assert (record["hidden"], record["new"], record["key"]) == (True, None, None)


def test_an_admin_looks_at_the_preview_and_adds_the_rule(history: History) -> None:
    client = client_of(name="root", role="admin")
    words = {"table": "public.*", "column": "stat*", "when": "ingest"}
    page = build_masks_page(MaskForm(words, by="root"))
    assert page.preview is not None
    assert (page.preview.matches_words, page.preview.title, page.preview.at_ingest) == (
        "1 column of 1 table", "public.*.stat*", True,
    )  # fmt: skip
    assert (page.rules, page.sentence.title) == ([], "No column is masked.")
    assert client.get(reverse("masks"), words).status_code == 200
    assert not MaskRule.objects.exists()
    answer = client.post(reverse("masks"), words)
    rule = MaskRule.objects.get()
    assert answer.url == f"{reverse('masks')}#mask-{rule.pk}"
    page = build_masks_page(MaskForm({}, by="root"))
    assert [(view.rule, view.matches_words) for view in page.rules] == [
        (rule, "1 column of 1 table")
    ]
    assert page.preview is None
    assert page.sentence == Sentence(
        level="ok", title="1 mask rule in force.", cause="1 at ingest: its values are not stored."
    )
    client.post(reverse("mask-remove", args=[rule.pk]))
    assert not MaskRule.objects.exists()
    noted = AccessRecord.objects.filter(action="changed_settings").order_by("pk")
    assert [(each.subject, each.user_name) for each in noted] == [
        ("mask rule added", "root"),
        ("mask rule removed", "root"),
    ]


def test_a_key_is_named_in_the_preview(history: History) -> None:
    [found] = matched_by(as_rule(unsaved_rule(table="orders", column="*", when="ingest")))
    assert found.keys == ["id"]
    assert found.version_words == "version 1"
    page = build_masks_page(MaskForm({"table": "orders", "column": "*"}, by="root"))
    assert page.preview is not None
    assert page.preview.keys == ["public.orders.id"]
    assert page.preview.at_ingest


def test_a_rule_that_cannot_be_is_said_beside_its_box(history: History) -> None:
    client = client_of(name="root", role="admin")
    words = {"source": "elsewhere", "column": "<b>"}
    for answer in (client.get(reverse("masks"), words), client.post(reverse("masks"), words)):
        assert answer.status_code == 422
        page = answer.context["page"]
        assert list(page.form.errors) == ["source"]
        assert (page.form["column"].value(), page.preview) == ("<b>", None)
        assert 'aria-describedby="id_source_error"' in answer.text
    assert not MaskRule.objects.exists()


def test_the_page_of_masks_renders(history: History) -> None:
    client = client_of(name="root", role="admin")
    assert "No column is masked." in client.get(reverse("masks")).text
    mask(column="status", note="<i>")
    mask(column="<b>x")
    page = spaced(client.get(reverse("masks"), {"column": "*", "table": "orders"}).text)
    assert "<b>2 mask rules in force.</b>" in page
    assert "2 on display: values are stored, and shown to nobody." in page
    assert "check the rules that match no recorded column." in page
    assert "Matches 1 column of 1 table." in page
    assert "&lt;i&gt;" in page
    assert "*.&lt;b&gt;x" in page
    assert "<i>" not in page
    assert "This rule would match 3 columns of 1 table" in page
    assert "Values stored before stay in the store" in page
    assert '<span class="mono">public.orders.id</span> is a part of a key' in page
    page = spaced(client.get(reverse("masks"), {"source": "elsewhere", "column": "<b>"}).text)
    assert "no source" in page
    assert 'value="&lt;b&gt;"' in page


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_others_may_not(history: History, role: str) -> None:
    client = client_of(name="eve", role=role)
    assert client.get(reverse("masks")).status_code == 403
    assert client.post(reverse("masks"), {"column": "status"}).status_code == 403
    assert not MaskRule.objects.exists()


def test_a_receiver_reads_rules_once_they_change(history: History) -> None:
    store = connection.connection
    rules = MaskRules(history.slot.pk, {"public.orders": {"note": "drop"}})
    columns = [NamedColumn("id", "integer"), NamedColumn("note", "text"), NamedColumn("x", "text")]
    rules.read(store)
    assert rules.of_table("public", "orders", columns) == {"note": "drop"}
    rule = mask(table="orders", column="*", type_name="text", when="ingest")
    mask(table="orders", column="id")
    assert rules.read(store)
    assert rules.of_table("public", "orders", columns) == {"note": "drop", "x": "mask"}
    assert not rules.read(store)
    remove_rule(rule)
    assert rules.read(store)
    assert rules.of_table("public", "orders", columns) == {"note": "drop"}


def test_no_raw_message_is_kept_of_a_table_with_masks(history: History) -> None:
    store = connection.connection
    slot = history.slot.pk
    assert not withholds_raw(store, slot, {}, "public.orders")
    assert withholds_raw(store, slot, {"public.orders": {"note": "drop"}}, "public.orders")
    mask(table="orders", column="status")
    assert withholds_raw(store, slot, {}, "public.orders")
    assert not withholds_raw(store, slot, {}, "public.items")
    # In a schema with a dot in its name.
    assert withholds_raw(store, slot, {}, "odd.one.orders")
    # The name that the table had before or has after counts as well.
    history.table("purchases", 16384, ["id", "status"], number=2)
    assert withholds_raw(store, slot, {}, "public.purchases")
    # Nobody knows which table this is.
    assert withholds_raw(store, slot, {}, "")


def test_nobody_is_told_whether_a_masked_value_changed(history: History) -> None:
    """Answers are the same whether a masked value changed, was not sent, or moved the key."""
    cards = history.table("cards", 16386, ["id", "note"])
    large = [
        {"op": "U", "new": {"id": "1", "note": "other"}},
        {"op": "U", "new": {"id": "1"}},
    ]
    keys = [
        {"op": "U", "old": {"id": "1"}, "old_kind": "K", "new": {"id": "2", "note": "n"}},
        {"op": "U", "new": {"id": "2", "note": "n"}},
    ]
    made = history.commit(*[{**one, "version": cards} for one in (*large, *keys)])
    mask(table="cards", column="note")
    client = client_of(name="root", role="admin")

    def told() -> list[dict]:
        items = client.get(f"/api/v1/transactions/{made}/changes").json()["items"]
        return [{name: one[name] for name in ("key", "old", "new", "not_sent")} for one in items]

    stayed, changed = told()[:2]
    assert stayed == changed
    assert stayed["new"]["note"] == MASKED
    blocks = blocks_of(changes_of(reading_session(), made)[:2])
    assert [(b.not_sent, len(b.lines), b.before) for b in blocks[1:]] == [
        (blocks[0].not_sent, len(blocks[0].lines), blocks[0].before)
    ]
    mask(table="cards", column="id")
    forget()
    moved, same = told()[2:]
    assert moved == same
    moved, same = blocks_of(changes_of(reading_session(), made)[2:])
    assert (moved.before, moved.before_from) == (same.before, same.before_from)


def test_thousands_of_shapes_cost_a_search_little(db) -> None:
    history = History()
    columns = [{"name": f"column {n} of many", "type": "text"} for n in range(1600)]
    columns[700]["name"] = "Secret"
    RelationVersion.objects.bulk_create(
        RelationVersion(
            relation_id=history.orders.relation_id, number=number, digest=f"{number}",
            schema="public", table="orders", replica_identity="DEFAULT", key_columns=[],
            columns=columns,
        )
        for number in range(2, 102)
    )  # fmt: skip
    MaskRule.objects.create(table_pattern="*", column_pattern="sec*", when="display")
    read = []

    def reading(statement: str, parameters: object = None) -> list[tuple[object, ...]]:
        found = rows(statement, parameters)
        read.append((statement, sum(len(repr(row)) for row in found)))
        return found

    def masked() -> frozenset[str]:
        read.clear()
        return nobodys_visibility(reading).masked(history.orders.relation_id)

    # A few characters a shape leave the server, and not 60,000; once, and not for each reader.
    assert masked() == {"Secret"}
    assert sum(characters for _, characters in read) < 101 * 200
    assert masked() == {"Secret"}
    assert not any("jsonb_array_elements" in statement for statement, _ in read)
    RelationVersion.objects.filter(number=2).update(columns=[{"name": "SECOND", "type": "text"}])
    assert masked() == {"Secret", "SECOND"}
    second = RelationVersion.objects.get(number=2)
    seen = nobodys_visibility(reading).masked_in(second.relation_id, second.pk)
    assert seen == {"SECOND"}


def test_nobody_is_told_how_long_a_masked_value_is(history: History) -> None:
    made = history.commit(insert(1), size_bytes=48151)
    client = Client()
    client.force_login(make_user("root", "admin"))
    pages = (
        "/transactions/?slot=shop/replview", f"/transactions/{made}/",
        f"/transactions/{made}/drawer/", "/api/v1/transactions?slot=shop/replview",
        "/api/v1/transactions?slot=shop/replview&min_bytes=48151",
    )  # fmt: skip
    told = [client.get(page).text for page in pages]
    assert ["48151" in text or "47 kB" in text or "47\xa0kB" in text for text in told] == [True] * 5
    mask(column="status")
    told = [client.get(page).text for page in pages]
    assert ["48151" in text or "47 kB" in text or "47\xa0kB" in text for text in told] == [
        False
    ] * 5
    assert '"size_bytes": null' in told[3].replace('":null', '": null')
    assert str(made) not in told[4]


def test_no_average_is_told_of_rows_with_a_masked_value(history: History) -> None:
    history.commit({**insert(1), "key_hash": 1})
    relation_id = history.orders.relation_id
    assert row_widths(reading_session(), relation_id, ["id"], 3) is not None
    viewer = make_user("vera", "viewer", sources=[history.slot.source], tables=["public.other"])
    with use_visibility(visibility_for(viewer)):
        assert row_widths(reading_session(), relation_id, ["id"], 3) is None
    mask(column="status")
    assert row_widths(reading_session(), relation_id, ["id"], 3) is None


def test_no_rate_of_bytes_is_told_of_a_table_with_a_masked_value(history: History) -> None:
    minute = timezone.now().replace(second=0, microsecond=0) - dt.timedelta(minutes=10)
    other = history.table("other", 2, ["id"])
    for relation_id in (history.orders.relation_id, other.relation_id):
        RelationMinute.objects.create(
            incarnation_id=history.incarnation.pk, relation_id=relation_id, minute=minute,
            changes=1, size_bytes=48151,
        )  # fmt: skip

    def told(by: str) -> list[str]:
        since = minute - dt.timedelta(hours=1)
        rates = read_table_rates(history.slot.pk, by, since, timezone.now())
        return sorted(name for name, _ in rates.tables)

    assert told("bytes") == told("changes") == ["public.orders", "public.other"]
    mask(column="status")
    assert (told("bytes"), told("changes")) == (["public.other"], ["public.orders", "public.other"])


def test_a_look_tells_no_size_where_a_value_is_masked(history: History) -> None:
    result = {"bytes": 48151, "listed": [{"xid": 7, "state": "committed", "bytes": 48151}]}

    def sizes() -> list[int | None]:
        found = PeekResult(seen_sizes(result))
        return [found.number("bytes"), *(row.size_bytes for row in found.waiting)]

    assert sizes() == [48151, 48151]
    mask(column="status")
    assert sizes() == [None, None]
