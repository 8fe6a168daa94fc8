"""*Since last* begins where the last export of its name ended, and says what is missing between."""

import datetime as dt
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from django.core.management.base import CommandError
from django.db import connection

from decoder.scalars import LSN
from replview.features.exports.record import read_record
from replview.features.exports.request import read_export_request
from replview.parquet.reading import connect
from replview.parquet.slices import Slice
from replview.parquet.writing.manifests import gaps_of
from replview.store.connecting import store_conninfo
from replview.store.models import Export, PublicationLapse, SlotEvent, Transaction
from tests.features.exports.conftest import ids
from tests.support.commands import an_instance as an_instance  # a fixture
from tests.support.commands import run as run  # a fixture
from tests.support.history_rows import WHEN, History, insert

pytestmark = pytest.mark.slow

SLOT = "shop/replview"


def at(minutes: int) -> dt.datetime:
    return WHEN + dt.timedelta(minutes=minutes)


def text(moment: dt.datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def ended(run: Callable[..., str], status: int, **words: object) -> str:
    with pytest.raises(CommandError) as error:
        run("export", slot=SLOT, name="nightly", since_last=True, **words)
    assert error.value.returncode == status
    return str(error.value)


def test_nothing_is_missing_after_an_export_that_had_an_end(
    history: History, run: Callable[..., str], tmp_path: Path
) -> None:
    # The clock steps back: commit times do not always grow with the place in history.
    for number, minutes in ((5, 1), (6, 10), (7, 2), (8, 11)):
        history.commit(insert(number), commit_time=at(minutes))
    out = str(tmp_path)
    words = {"slot": SLOT, "name": "nightly", "since_last": True, "to": out}
    run("export", until=text(at(5)), since=text(WHEN), **words)
    # The slice ends before the first transaction that is later than ``until``.
    assert ids(tmp_path) == ["1", "2", "3", "3", "5"]
    # The next has its filter, and neither its beginning nor its end.
    history.commit(insert(9), commit_time=WHEN - dt.timedelta(days=1))
    run("export", **words | {"to": None})
    assert ids(tmp_path) == ["1", "2", "3", "3", "5", "6", "7", "8", "9"]
    assert "there is nothing new since export" in ended(run, 2)

    # Nor is anything left out by a beginning that is given again, by an LSN that ends one …
    place = Transaction.objects.order_by("-commit_seq").values_list("commit_lsn", flat=True)[0]
    assert place is not None
    history.commit(insert(10), commit_time=at(12))
    history.commit(insert(11), commit_time=at(13))
    run("export", from_lsn=str(place), since=text(at(13)), to_lsn=str(LSN(place + 1_000)), **words)
    assert "10" in ids(tmp_path)
    assert "11" not in ids(tmp_path)
    # … or by the places that a former version kept with its slice.
    last = Export.objects.latest("pk")
    last.slice = {**last.slice, "until": at(13).isoformat(), "through_seq": 99}
    last.save()
    request = read_export_request(history.slot, {}, name="nightly", since_last=True)
    assert request.slice.after_seq == Transaction.objects.count() - 1
    # One that failed is done again as it was asked for: since the last.
    last.slice = {**last.slice, "after_seq": 5}
    assert "since_last=1" in read_record(last).again_url
    assert "until" not in read_record(last).since_last_url


def test_a_gap_is_named_and_nothing_is_written_unless_it_is_allowed(
    history: History, run: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"slot": SLOT, "name": "nightly", "since_last": True, "to": str(tmp_path)}
    done = orjson.loads(run("export", json=True, **words))
    assert (done["outcome"], done["gaps"], done["problem"]) == ("done", [], "")
    assert (done["export"]["rows"], done["export"]["slice"]["through_seq"]) == (4, 3)

    gone = [history.commit(insert(number)) for number in (5, 6)]
    Transaction.objects.filter(pk__in=gone).delete()
    # Nothing came after what was deleted: that is no "nothing is new".
    assert "commit_seq 4 to 5 were deleted from the store" in ended(run, 3)
    history.commit(insert(7))
    said = ended(run, 3)
    assert "history has a gap since export" in said
    assert "commit_seq 4 to 5 were deleted from the store. Give --allow-gaps" in said
    assert Export.objects.count() == 1
    assert "over a gap: commit_seq 4 to 5" in run("export", allow_gaps=True, **words)
    assert ids(tmp_path) == ["1", "2", "3", "3", "7"]

    # The slot was made anew: what it missed stands in its log, and what nobody can export of the
    # incarnation before it keeps nothing back.
    gone = [history.commit(insert(number)) for number in (10, 11)]
    Transaction.objects.filter(pk__in=gone).delete()
    incarnation = history.new_incarnation()
    message = "Everything between 0/1 and 0/2 is missing."
    SlotEvent.objects.create(
        slot=history.slot, incarnation=incarnation, kind="gap", message=message
    )
    history.commit(insert(8))
    said = ended(run, 3)
    assert "commit_seq 7 to 8 were deleted from the store; Everything between 0/1 and 0/2" in said
    assert "over a gap" in run("export", allow_gaps=True, **words)
    assert Export.objects.latest("pk").slice["incarnation"] == 2
    history.commit(insert(9))
    assert "1 rows in" in run("export", **words)


def test_a_time_without_publication_is_a_gap(
    history: History, run: Callable[..., str], tmp_path: Path
) -> None:
    words = {"slot": SLOT, "name": "nightly", "since_last": True, "to": str(tmp_path)}
    run("export", **words)
    history.commit(insert(5))
    last = Transaction.objects.latest("commit_seq")
    assert last.commit_lsn is not None
    lapse = PublicationLapse(
        slot=history.slot, relation_oid=16384, schema="public", table="orders", kind="unpublished",
        operations="IUDT", from_incarnation=1, from_lsn=LSN(int(last.commit_lsn) - 1), from_at=WHEN,
        to_incarnation=1, to_lsn=last.commit_lsn, to_at=at(1),
    )  # fmt: skip
    lapse.save()
    why = f"public.orders was not published from {WHEN:%Y-%m-%d %H:%M:%S} UTC to"

    assert why in ended(run, 3)
    assert f"over a gap: {why}" in run("export", allow_gaps=True, **words)
    [manifest] = [
        document for path in tmp_path.rglob("_manifests/*.json")
        if (document := orjson.loads(path.read_bytes()))["slice"]["through_seq"] == last.commit_seq
    ]  # fmt: skip
    [gap] = manifest["gaps"]
    assert (gap["kind"], gap["table"], gap["operations"]) == (
        "unpublished",
        "public.orders",
        "IUDT",
    )
    # The lapse is over and concerns no later slice.
    history.commit(insert(6))
    assert "1 rows in" in run("export", **words)
    # Nor does that a table was never published before it was added.
    lapse.from_at, lapse.from_lsn, lapse.to_lsn = None, LSN(0), LSN(1 << 40)
    lapse.save()
    history.commit(insert(7))
    assert "1 rows in" in run("export", **words)


def test_every_gap_is_told_however_many_there_are(history: History) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO transaction (id, incarnation_id, commit_seq, state, streamed, inserts,
                   updates, deletes, truncates, messages, size_bytes, aborted_changes,
                   relations, received_at)
               SELECT (SELECT max(id) FROM transaction) + n, %s, 3 + n,
                      CASE n %% 4 WHEN 2 THEN 'skipped' ELSE 'committed' END, false,
                      0, 0, 0, 0, 0, 0, 0, '{}', now()
               FROM generate_series(2, 5000, 2) n""",
            [history.incarnation.pk],
        )
    part = Slice(source="shop", slot="replview", incarnation_id=history.incarnation.pk,
                 incarnation=1, after_seq=0, through_seq=5003)  # fmt: skip
    with connect(store_conninfo()) as store:
        gaps = gaps_of(store, part)
    assert Counter(gap["kind"] for gap in gaps) == {"deleted": 2500, "skipped": 1250}
