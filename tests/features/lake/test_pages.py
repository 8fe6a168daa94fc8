"""The pages of lakes: what they show, what they offer, and to whom."""

import datetime as dt
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from replview.features.lake.page import read_lakes_page
from replview.features.lake.request import add, request_run
from replview.jobs.lakes import rows
from replview.store import instance_settings
from replview.store.models import Lake, LakeRun, MaskRule
from replview.store.retention.tidy import make_partitions
from replview.text.formats import bytes_words
from tests.support.history_rows import History, insert
from tests.support.page_elements import spaced
from tests.support.people import make_user


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


@pytest.fixture
def lake(history: History, tmp_path: Path) -> Lake:
    """A lake of both tables."""
    lake = Lake(name="shop", slot=history.slot, format="delta", root="lake")
    return add(lake, ["public.orders", "public.people"], anywhere=True, base=tmp_path)


def client(name: str = "alice", role: str = "operator", **more: object) -> Client:
    client = Client()
    client.force_login(make_user(name, role, **more))  # type: ignore[arg-type]
    return client


def html_of(reader: Client, address: str) -> str:
    answer = reader.get(address)
    assert answer.status_code == 200
    return spaced(answer.content.decode())


def read_all(lake: Lake) -> None:
    """Store what a run reports that read everything."""
    sizes = {"changes": {"rows": 1204, "files": 3, "bytes": 2_100_000},
             "current": {"rows": 17, "files": 1, "bytes": 4_000}}  # fmt: skip
    lake.relations.update(reached={"1": 2}, sizes=sizes, reported_at=timezone.now())


def test_the_empty_page_has_a_command_with_names_of_this_store(history: History) -> None:
    page = html_of(client(), "/lakes/")
    assert "No lake yet" in page
    command = "replview lake add NAME --slot shop/replview --root /srv/lake --format delta"
    assert f'data-copy="{command} --table public.orders"' in page


def test_a_lake_that_was_never_run_says_so(lake: Lake) -> None:
    sentence = read_lakes_page().sentence
    assert (sentence.level, sentence.title) == ("look", "shop:")
    assert sentence.cause == "Nothing was read yet of public.orders, public.people."
    page = html_of(client(), "/lakes/")
    assert '<i class="unknown">unknown</i>' in page
    assert "<td>never</td>" in page


def test_what_was_read_is_shown_with_its_amounts(lake: Lake, history: History) -> None:
    read_all(lake)
    assert read_lakes_page().sentence.cause == "shop: up to date."
    late = timezone.now() - dt.timedelta(minutes=4)
    history.commit(insert(2), commit_time=late)
    reader = client()
    page = html_of(reader, "/lakes/")
    assert "1,204" in page
    assert bytes_words(2_100_000) in page
    assert "<td>1 change, 4\xa0min" in page
    page = html_of(reader, f"/lakes/{lake.pk}/?table=public.people&kind=current")
    assert 'aria-current="true">public.people</a>' in page
    assert "public~2Epeople/current" in page
    assert "public~2Eorders" not in page


def test_a_failure_is_shown_with_its_remedy(lake: Lake) -> None:
    read_all(lake)
    lake.relations.filter(name="public.people").update(
        problem_cause="the disk <b> is full", problem_remedy="make room", gaps=[[1, 5, 9]],
        no_current="the table has no key",
    )  # fmt: skip
    run = request_run(lake, "run", by="alice", how=LakeRun.How.COMMAND)
    rows.fail(run, "the disk is full", "Make room", reading="public.people")
    reader = client()
    page = html_of(reader, "/lakes/")
    assert "<b>shop: the last run failed:</b> public.people: the disk is full." in page
    assert "the disk &lt;b&gt; is full. Next: make room." in page
    assert "commit_seq 5 to 9 of incarnation 1." in page
    assert '<i class="unknown">none</i>' in page
    page = html_of(reader, f"/lakes/{lake.pk}/")
    assert '<span class="mono">public.people</span>: the disk is full' in page


def test_a_table_stays_failed_until_it_is_read(lake: Lake) -> None:
    read_all(lake)
    lake.relations.filter(name="public.people").update(problem_cause="x", problem_remedy="Do y")
    sentence = read_lakes_page().sentence
    assert (sentence.level, sentence.title) == ("now", "shop: public.people failed:")
    assert (sentence.cause, sentence.next) == ("x.", "do y.")


def test_a_run_is_requested_shown_and_cancelled(lake: Lake) -> None:
    reader = client()
    answer = reader.post(f"/lakes/{lake.pk}/run/", {"action": "maintain"})
    assert answer["Location"] == f"/lakes/{lake.pk}/"
    run = LakeRun.objects.get()
    assert (run.action, run.state, run.requested_by, run.requested_how) == (
        "maintain", "waiting", "alice", "page"
    )  # fmt: skip
    assert 'data-poll="2"' in html_of(reader, "/lakes/")
    answer = reader.post(f"/lakes/{lake.pk}/run/", {"action": "run"})
    assert (answer.status_code, LakeRun.objects.count()) == (422, 1)
    assert f"run {run.pk} (maintain) is waiting" in answer.content.decode()
    other = client("bob")
    assert other.post(f"/lakes/{lake.pk}/cancel/").status_code == 403
    reader.post(f"/lakes/{lake.pk}/cancel/")
    run.refresh_from_db()
    assert run.state == "cancelled"
    assert 'data-poll="2"' not in html_of(reader, "/lakes/")
    assert reader.post(f"/lakes/{lake.pk}/run/", {"action": "drop"}).status_code == 404


def test_a_runs_progress_is_shown_while_it_runs(lake: Lake, history: History) -> None:
    request_run(lake, "run", by="alice", how=LakeRun.How.PAGE)
    run = rows.claim()
    assert run is not None
    reader = client()
    bar = '<svg class="job-bar"'
    assert bar not in html_of(reader, f"/lakes/{lake.pk}/")
    progress = {"table": 2, "tables": 2, "changes": 1204, "of": 9000}
    rows.beat(run, reading="public.people", result=progress)
    LakeRun.objects.update(started_at=timezone.now() - dt.timedelta(seconds=34))
    page = html_of(reader, f"/lakes/{lake.pk}/")
    assert "<b>shop: reading public.people.</b> Table 2 of 2, 1,204 of 9,000 changes in 34" in page
    assert 'aria-label="table 2 of 2, 1,204 of 9,000 changes"' in page
    assert '<rect width="134"' in page
    page = html_of(reader, "/lakes/")
    assert bar in page
    assert "table 2 of 2, 1,204 of 9,000 changes</span>" in page
    restricted = client("bob", sources=[history.slot.source], tables=["public.orders"])
    assert bar not in html_of(restricted, f"/lakes/{lake.pk}/")


def test_the_switch_of_exports_forbids_runs(lake: Lake) -> None:
    instance_settings.write("exports.allowed", False, "root")
    reader = client()
    assert reader.post(f"/lakes/{lake.pk}/run/", {"action": "run"}).status_code == 422
    assert not LakeRun.objects.exists()
    assert "Exports are switched off, and lakes with them." in html_of(reader, "/lakes/")


def test_a_viewer_opens_no_lake(lake: Lake) -> None:
    reader = client(role="viewer")
    assert reader.get("/lakes/").status_code == 403
    assert reader.post(f"/lakes/{lake.pk}/run/", {"action": "run"}).status_code == 403


def test_a_table_without_a_right_is_not_named(lake: Lake, history: History) -> None:
    read_all(lake)
    run = request_run(lake, "run", by="alice", how=LakeRun.How.COMMAND)
    rows.fail(run, "no table people is there", "Look for people", reading="public.people")
    reader = client(sources=[history.slot.source], tables=["public.orders"])
    for address in ("/lakes/", f"/lakes/{lake.pk}/?table=public.people"):
        page = html_of(reader, address)
        assert "public.orders" in page
        assert "people" not in page
        assert "a table failed that you have no right to see" in page


def test_a_log_is_withheld_where_values_are_masked(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("Spark says what it did")
    run = request_run(lake, "run", by="alice", how=LakeRun.How.PAGE)
    LakeRun.objects.filter(pk=run.pk).update(log_path=str(tmp_path / "run.log"))
    reader = client()
    assert reader.get(f"/lakes/{lake.pk}/log/").content == b"Spark says what it did"
    link = f'href="/lakes/{lake.pk}/log/"'
    assert link in html_of(reader, f"/lakes/{lake.pk}/")
    MaskRule.objects.create(table_pattern="*", column_pattern="name", when="display")
    assert link not in html_of(reader, f"/lakes/{lake.pk}/")
    assert reader.get(f"/lakes/{lake.pk}/log/").status_code == 403
