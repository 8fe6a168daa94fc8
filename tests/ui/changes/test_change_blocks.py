"""A block shows a change within a bounded size."""

from typing import Any

import pytest
from django.template.loader import render_to_string

from replview.store.read.changes.values import same_value
from replview.store.read.rows import ChangeRow
from replview.text.formats import short_type
from replview.ui.changes.cells import Block
from replview.ui.changes.change_blocks import blocks_of
from tests.support.page_elements import spaced


def change(op: str = "U", names: str = "id status note", **values: Any) -> ChangeRow:
    known = {
        "transaction_id": 0, "seq": 1, "lsn": "0/1", "subxid": None, "op": op, "old_kind": None,
        "old": None, "new": None, "relation_id": None, "key_hash": None, "old_key_hash": None,
        "schema": "public", "table": "orders", "version": 1, "replica_identity": "FULL",
        "columns": [{"name": name, "type": "text"} for name in names.split()],
        "key_columns": ["id"],
    }  # fmt: skip
    return ChangeRow(**(known | values))


def block(*args: Any, all_columns: bool = False, **values: Any) -> Block:
    [made] = blocks_of([change(*args, **values)], all_columns=all_columns)
    return made


def html(made: Block) -> str:
    return spaced(render_to_string("ui/changes/_block.html", {"block": made, "slot": None}))


def updated(before: Any, after: Any, type_name: str = "text") -> Block:
    columns = [{"name": "id", "type": "bigint"}, {"name": "v", "type": type_name}]
    return block(columns=columns, old_kind="O", old={"id": "1", "v": before},
                 new={"id": "1", "v": after})  # fmt: skip


@pytest.mark.django_db
class TestBlocks:
    def test_null_empty_text_and_the_text_null_are_told_apart(self) -> None:
        assert updated(None, "").lines[0].before.kind == "null"
        assert updated(None, "").lines[0].after.kind == "empty"
        assert updated("null", "NULL").lines[0].before.kind == "quoted"
        page = html(updated("null", None)) + html(updated("x", ""))
        assert '<mark class="null">null</mark>' in page
        assert "‘</i>" in page
        assert "empty text" in page

    def test_only_what_differs_is_shown_and_the_rest_named(self) -> None:
        made = block(old_kind="O", old={"id": "1", "status": "a", "note": "n"},
                     new={"id": "1", "status": "b", "note": "n"})  # fmt: skip

        assert [line.name for line in made.lines] == ["status"]
        assert made.fold_names == ["id", "note"]
        assert "2 unchanged" in html(made)

    def test_all_columns_unfolds_it(self) -> None:
        made = block(old_kind="O", old={"id": "1", "status": "a", "note": "n"},
                     new={"id": "1", "status": "b", "note": "n"}, all_columns=True)  # fmt: skip

        assert [line.name for line in made.lines] == ["status", "id", "note"]
        assert made.fold_count == 0

    def test_long_text_is_compared_by_word_and_json_by_line(self) -> None:
        words = "a rather long note about the parcel and where to leave it, if nobody is in"
        by_word = html(updated(words, words.replace("parcel", "letter")))
        by_line = html(updated('{"a": 1, "b": 2}', '{"a": 1, "b": 3, "c": 4}', "jsonb"))

        assert "text diff: 1 place<" in by_word
        assert "parcel</del>" in by_word
        assert "JSON diff: 1 line changed, 1 added" in by_line
        assert '<span class="line-no" aria-hidden="true">3</span>' in by_line

    def test_an_unchanged_toast_value_is_not_sent(self) -> None:
        made = block(old_kind="O", old={"id": "1", "status": "a", "note": "n"},
                     new={"id": "1", "status": "b"})  # fmt: skip

        assert made.not_sent == ["note"]
        assert "unchanged TOAST" in html(made)

    def test_marked_values_are_words(self) -> None:
        page = html(block("I", new={"id": "1", "status": {"$masked": True},
                                    "note": {"$binary": "AAAA", "$type": 25}}))  # fmt: skip

        assert "masked" in page
        assert "binary, not decoded, 3" in page

    def test_a_value_too_large_to_be_kept_is_named(self) -> None:
        mark = {"$too_large": 734_003_200, "$sha256": "ab12"}
        page = html(block("I", new={"id": "1", "status": mark, "note": "x"}))

        assert "too large: 734,003,200 bytes, sha256 ab12" in page
        assert same_value(mark, dict(mark)) is True
        assert same_value(mark, {**mark, "$sha256": "cd34"}) is False
        assert same_value(mark, "x") is False

    def test_what_cannot_be_undone_says_why(self) -> None:
        known = block(old_kind="O", old={"id": "1", "status": "a", "note": "n"},
                      new={"id": "1", "status": "b", "note": "n"})  # fmt: skip
        unknown = block(new={"id": "1", "status": "b", "note": "n"})
        masked = block("D", old_kind="O", old={"id": "1", "status": {"$masked": True},
                                               "note": "x"})  # fmt: skip

        # Earlier changes of it may be there, of which none tells the row.
        assert unknown.before_from == (
            "the server sent no old row, and earlier changes do not show it"
        )
        assert known.undo_problem == ""
        assert "earlier changes do not contain it" in unknown.undo_problem
        assert masked.undo_problem == "status is masked"

    def test_a_row_of_1600_columns_stays_small(self) -> None:
        names = [f"column_{n}" for n in range(1600)]
        row = dict.fromkeys(names, "x" * 100)
        made = block("I", " ".join(names), new=row, key_columns=[])

        assert len(made.lines) + len(made.folded) + len(made.left_out) == 1600
        assert len(html(made)) < 60_000
        whole = block("I", " ".join(names), new=row, key_columns=[], all_columns=True)
        assert len(whole.lines) == 1600

    def test_fifty_long_values_do_not_take_seconds(self) -> None:
        import time

        words = " ".join(f"word{n % 97}" for n in range(1_400))
        other = " ".join(f"word{n * 7 % 89}" for n in range(1_400))
        rows = [change(seq=n, old_kind="O", old={"id": "1", "note": words},
                       new={"id": "1", "note": other}) for n in range(50)]  # fmt: skip
        began = time.thread_time()
        blocks_of(rows)

        assert time.thread_time() - began < 2

    def test_names_and_values_are_escaped(self) -> None:
        evil = "<img src=x>\"'"
        made = block("I", columns=[{"name": evil, "type": evil}], new={evil: evil}, table=evil,
                     key_columns=[evil])  # fmt: skip

        assert "<img" not in html(made)


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("timestamp with time zone", "timestamptz"),
        ("timestamp(3) without time zone[]", "timestamp(3)[]"),
        ("character varying(40)", "varchar(40)"),
        ("numeric(12,2)", "numeric(12,2)"),
        ("public.order_status", "public.order_status"),
    ],
)
def test_types_are_written_as_people_do(long: str, short: str) -> None:
    assert short_type(long, qualified=True) == short
