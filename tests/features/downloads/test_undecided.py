"""Changes of which nobody knows whether they match are left out, counted and told everywhere."""

import json
from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from replview.access.visibility import reading_session
from replview.features.downloads.files import line_pieces
from replview.store.read.changes.selections import Selection
from tests.support.recording import Recording
from tests.support.source_databases import SourceDatabase

_WHERE = "long ~ xxx"
_WORDS = (
    "3 changes are left out, because it is unknown whether they matched: the server did not send"
)


@pytest.fixture
def recording(source: SourceDatabase, record: Callable[..., Recording], settings) -> Recording:
    """Record updates of five rows; for three, whether they match a text filter is unknown.

    Their long value is TOASTed, older than the record, and was never sent.
    """
    settings.STORE_URL = "postgresql://the-test-store/"
    source.run(
        "CREATE TABLE notes (id int PRIMARY KEY, long text, n int)",
        "ALTER TABLE notes ALTER long SET STORAGE EXTERNAL",
        "INSERT INTO notes SELECT i, repeat('x', 5000), 0 FROM generate_series(1, 5) AS i",
    )
    recording = record(source)
    recording.streaming()
    source.run(
        "UPDATE notes SET n = 1 WHERE id = 1",
        "UPDATE notes SET n = 1 WHERE id IN (2, 3)",
        "UPDATE notes SET long = 'short' WHERE id = 4",
        "UPDATE notes SET n = 2 WHERE id = 4",
        "UPDATE notes SET long = repeat('x', 20) WHERE id = 5",
        "UPDATE notes SET n = 2 WHERE id = 5",
    )
    recording.caught_up()
    with source.connect() as session:
        matching = session.execute("SELECT id FROM notes WHERE long ~ 'xxx' ORDER BY id").fetchall()
    # So the source says: those of 5 are known to match, those of 1 to 3 do and nobody knows.
    assert [row[0] for row in matching] == [1, 2, 3, 5]
    return recording


@pytest.mark.parametrize("words", [[], ["--newest", "50"], ["--format", "csv"]])
def test_the_command_says_so_at_its_end(recording: Recording, words: list[str]) -> None:
    out, errors = StringIO(), StringIO()
    slot = str(recording.slot)
    call_command("changes", "--slot", slot, "--where", _WHERE, *words, stdout=out, stderr=errors)
    assert out.getvalue().count("\n") == 2 + ("csv" in words)
    assert errors.getvalue().startswith(_WORDS)


def test_the_command_says_nothing_where_all_is_known(recording: Recording) -> None:
    out, errors = StringIO(), StringIO()
    words = ["--slot", str(recording.slot), "--where", "n = 1"]
    call_command("changes", *words, stdout=out, stderr=errors)
    assert (out.getvalue().count("\n"), errors.getvalue()) == (3, "")


def test_a_parquet_file_of_the_command_is_told_of(recording: Recording, tmp_path) -> None:
    out, errors = StringIO(), StringIO()
    words = ["--format", "parquet", "--output", str(tmp_path / "notes.parquet")]
    slot = str(recording.slot)
    call_command("changes", "--slot", slot, "--where", _WHERE, *words, stdout=out, stderr=errors)
    assert errors.getvalue().splitlines()[1].startswith(_WORDS)


def test_a_download_says_so_in_its_last_line(signed_in: Client, recording: Recording) -> None:
    words = {"slot": str(recording.slot), "where": _WHERE}

    def content(form: str) -> bytes:
        answer = signed_in.get(reverse("download"), {**words, "format": form})
        return b"".join(answer.streaming_content)

    *found, last = map(json.loads, content("jsonl").splitlines())
    assert [record["key"] for record in found] == [{"id": "5"}, {"id": "5"}]
    assert last["undecided"].startswith(_WORDS)
    assert content("csv").decode().splitlines()[-1].startswith(f'"# {_WORDS}')
    for where, told in ((_WHERE, True), ("n = 1", False)):
        asked = {**words, "where": where, "format": "parquet"}
        answer = signed_in.get(reverse("download"), asked)
        assert b"".join(answer.streaming_content).startswith(b"PAR1")
        assert answer.get("X-Replview-Undecided", "").startswith(_WORDS) is told


@pytest.mark.parametrize(("limit", "undecided"), [(1, 3), (2, 3), (3, 5), (9, 5)])
def test_what_ends_at_a_limit_counts_those_up_to_it(
    source: SourceDatabase, recording: Recording, limit: int, undecided: int
) -> None:
    source.run("UPDATE notes SET n = 3 WHERE id IN (1, 2)", "UPDATE notes SET n = 3 WHERE id = 5")
    recording.caught_up()
    slot, errors = recording.slot, StringIO()
    selection = Selection.from_words(reading_session(), slot, {"where": _WHERE})
    lines = b"".join(line_pieces(selection, "jsonl", limit)).splitlines()
    notes = [json.loads(line) for line in lines[min(limit, 3) :]]
    assert [next(iter(note)) for note in notes] == ["cut", "undecided"][limit >= 3 :]
    assert notes[-1]["undecided"].startswith(f"{undecided} changes are left out")
    words = ["--slot", str(slot), "--where", _WHERE, "--limit", str(limit)]
    call_command("changes", *words, stdout=StringIO(), stderr=errors)
    assert errors.getvalue().startswith(f"{undecided} changes are left out")


def test_the_api_counts_each_of_them_on_one_page(signed_in: Client, recording: Recording) -> None:
    words = {"slot": str(recording.slot), "where": _WHERE}
    for address in ("history", "changes"):
        whole = signed_in.get(f"/api/v1/{address}", words).json()
        assert (len(whole["items"]), whole["unknown"]) == (2, 3)
        pages, cursor = [], ""
        while cursor is not None:
            page = signed_in.get(f"/api/v1/{address}", {**words, "limit": 1, "cursor": cursor})
            pages.append(page.json())
            cursor = None if pages[-1]["complete"] else pages[-1]["next"]
        assert sum(page["unknown"] for page in pages) == 3, pages
        assert sum(len(page["items"]) for page in pages) == 2
    two = recording.transactions()[1]
    one_transaction = signed_in.get(f"/api/v1/transactions/{two.pk}/changes", words).json()
    assert (one_transaction["items"], one_transaction["unknown"]) == ([], 2)
