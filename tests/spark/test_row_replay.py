"""The replay over Arrow columns: random histories, whose every state and change is known."""

import datetime as dt
import random
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from replview.parquet.slice_schemas import TIMESTAMPTZ
from replview.parquet.slices import TableVersion
from replview.spark.history.key_chains import chains_of
from replview.spark.history.replay_piece import TRUNCATIONS
from replview.spark.history.row_replay import Interrupted, RowReplay
from replview.spark.history.simple_replay import SimpleReplay
from replview.store.read.row_history.breaks import Lapse
from tests.support.written_history import BEGAN, V1

COLUMNS = ("id", "a", "big")
SCHEMA = pa.schema([
    ("_change_type", pa.string()), ("_commit_version", pa.int64()), ("stream", pa.int32()),
    ("_seq", pa.int32()), ("rank", pa.int32()), ("_commit_timestamp", TIMESTAMPTZ),
    ("_relation_version", pa.int32()), ("_not_sent", pa.list_(pa.string())), ("key", pa.int64()),
    ("row_id", pa.int64()), ("is_carried", pa.bool_()), ("nameless", pa.bool_()),
    *((f"digest{n}", pa.int64()) for n in range(3)),
    *((f"value{n}", pa.string()) for n in range(3)), ("_pg_raw", pa.map_(pa.string(), pa.string())),
])  # fmt: skip
VERSIONS = (
    TableVersion(id=1, number=1, columns=V1, key_columns=("id",)),
    TableVersion(id=2, number=2, columns=V1, key_columns=("id",), replica_identity="FULL"),
)
Row = dict[str, str | None]


def digest(value: object) -> int:
    return zlib.crc32(repr(value).encode())


@dataclass
class Changes:
    """Changes as a replay takes them, and truncations."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    truncations: list[tuple[int, int, dt.datetime]] = field(default_factory=list)
    version: int = 1

    def add(self, kind: str, lsn: int, seq: int, image: Mapping[str, Any], **more: Any) -> None:
        """One row; what the image leaves out was not sent."""
        values = [image.get(name) for name in COLUMNS]
        self.rows.append({
            "_change_type": kind, "_commit_version": lsn, "stream": 1, "_seq": seq,
            "rank": int(kind != "update_preimage"), "_commit_timestamp": BEGAN,
            "_relation_version": self.version, "is_carried": False, "nameless": False,
            "_not_sent": [name for name in COLUMNS if name not in image],
            "key": digest(image.get("id")), "row_id": digest(image.get("id")), "_pg_raw": [],
            **{f"value{n}": value for n, value in enumerate(values)},
            **{f"digest{n}": digest(value) for n, value in enumerate(values)}, **more,
        })  # fmt: skip

    def replayed(
        self, lapses: Sequence[Lapse] = (), *, is_interrupted: bool = False
    ) -> list[dict[str, Any]]:
        """The result, in the order of history."""
        cuts = pa.table([[*each] for each in zip(*self.truncations, strict=True)] or [[], [], []],
                        schema=TRUNCATIONS)  # fmt: skip
        replay = RowReplay(VERSIONS, COLUMNS, cuts, lapses, is_interrupted=lambda: is_interrupted)
        found: list[dict[str, Any]] = replay(pa.Table.from_pylist(self.rows, SCHEMA)).to_pylist()
        return found


class RandomHistory:
    """A table that is changed at random; after each commit its content is noted."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.changes = Changes()
        self.table: dict[str, Row] = {}
        self.contents: dict[int, dict[str, Row]] = {}
        #: Operation and column → how often.
        self.counts: Counter[tuple[str, str | None]] = Counter()
        self.values = count()
        # Some keys are changed by whole rows only, so that they need no replay.
        self.plain = {"7", "8", "9"}
        self.table = {key: {"id": key, "a": "x", "big": key} for key in ("0", "1", "8")}
        for lsn in range(1, 40):
            if lsn in (1, 12, 30):
                # A baseline, of which the latter two repeat what is known.
                for seq, row in enumerate(self.table.values(), start=1):
                    self.changes.add("insert", lsn, seq, row, stream=0)
            if lsn == 20 and self.random.random() < 0.5:
                self.changes.version = 2
            for seq in range(1, self.random.randrange(2, 6)):
                self._change(lsn, seq)
            self.contents[lsn] = {key: dict(row) for key, row in self.table.items()}

    def _change(self, lsn: int, seq: int) -> None:
        key = str(self.random.randrange(10))
        row = self.table.get(key)
        if self.random.random() < 0.02:
            self.table.clear()
            self.changes.truncations.append((lsn, seq, BEGAN))
        elif row is None:
            self.table[key] = {"id": key, "a": "x", "big": f"big {next(self.values)}"}
            self.changes.add("insert", lsn, seq, self.table[key])
            self.counts["insert", None] += 1
        elif self.random.random() < 0.2:
            del self.table[key]
            sent = row if self.changes.version == 2 else {"id": key}
            self.changes.add("delete", lsn, seq, sent)
            self.counts["delete", None] += 1
        else:
            self._update(lsn, seq, row)

    def _update(self, lsn: int, seq: int, row: Row) -> None:
        new = {**row, "a": self.random.choice("xyz")}
        if self.random.random() < 0.3:
            new["big"] = f"big {next(self.values)}"
        free = {str(n) for n in range(7)} - self.table.keys()
        if row["id"] not in self.plain and free and self.random.random() < 0.3:
            new["id"] = self.random.choice(sorted(free))
        is_full = self.changes.version == 2
        if is_full or new["id"] != row["id"]:
            sent = row if is_full else {"id": row["id"]}
            self.changes.add("update_preimage", lsn, seq, sent)
        shown = dict(new)
        if new["big"] == row["big"] and row["id"] not in self.plain:
            del shown["big"]
        self.changes.add("update_postimage", lsn, seq, shown)
        self.counts.update(("update", name) for name in COLUMNS if new[name] != row[name])
        del self.table[str(row["id"])]
        self.table[str(new["id"])] = new


def states_at(result: Sequence[Mapping[str, Any]], lsn: int) -> dict[str, Row]:
    rows = [
        {name: each[f"value{n}"] for n, name in enumerate(COLUMNS)}
        for each in result
        if each["is_state"] and each["_commit_version"] <= lsn
        and (each["to_version"] is None or lsn < each["to_version"])
    ]  # fmt: skip
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("seed", range(100))
def test_every_state_and_every_change_is_what_was_done(seed, monkeypatch) -> None:
    history = RandomHistory(seed)
    result = history.changes.replayed()
    for lsn, content in history.contents.items():
        assert states_at(result, lsn) == content, lsn
    counted: Counter[tuple[str, str | None]] = Counter()
    for each in result:
        names = each["changed"] if each["operation"] == "update" else [None]
        counted.update((each["operation"], name) for name in names if each["operation"])
    assert counted == history.counts

    # Keys that need no replay get the same result from one.
    simple = SimpleReplay._simple
    monkeypatch.setattr(SimpleReplay, "_simple", lambda own: simple(own) & False)
    assert history.changes.replayed() == result


def test_keys_that_need_no_replay_are_found(monkeypatch) -> None:
    found: list[bool] = []
    simple = SimpleReplay._simple

    def noted(own: Any) -> Any:
        found.extend(result := simple(own))
        return result

    monkeypatch.setattr(SimpleReplay, "_simple", noted)
    RandomHistory(1).changes.replayed()
    assert 0 < sum(found) < len(found)


def test_a_replay_of_many_chains_can_be_interrupted() -> None:
    """The process of a question ends only with its replay."""
    with pytest.raises(Interrupted):
        RandomHistory(1).changes.replayed(is_interrupted=True)


def test_a_row_of_unknown_past_has_unknown_values() -> None:
    changes = Changes()
    changes.add("update_postimage", 1, 1, {"id": "1", "a": "x"})
    changes.add("update_postimage", 2, 1, {"id": "1", "a": "x"})
    changes.add("update_postimage", 3, 1, {"id": "1", "a": "x", "big": "b"})
    changes.add("update_preimage", 4, 1, {"id": "5"})
    changes.add("update_postimage", 4, 1, {"id": "6", "a": "y", "big": "c"})
    found = changes.replayed()
    assert [(each["operation"], each["changed"], each["unknown"]) for each in found] == [
        ("update, before unknown", [], ["big"]), ("update", [], ["big"]), ("update", ["big"], []),
        # Of the row that moved only the former key is known.
        ("update", ["id"], []),
    ]  # fmt: skip


def test_nothing_is_carried_across_a_time_without_publication() -> None:
    changes = Changes()
    changes.add("insert", 10, 1, {"id": "1", "a": "x", "big": "b"})
    changes.add("update_postimage", 20, 1, {"id": "1", "a": "y"})
    whole = changes.replayed()[-1]
    assert (whole["operation"], whole["value2"], whole["unknown"]) == ("update", "b", [])
    lapse = Lapse(1, 1, 12, 15, 15, None, None, "", "U")
    broken = changes.replayed([lapse])[-1]
    assert (broken["operation"], broken["value2"]) == ("update, before unknown", None)
    assert broken["unknown"] == ["big"]
    for later in (
        Lapse(1, 1, 22, 25, 25, None, None, "", "U"),
        Lapse(1, 1, 5, 9, 9, None, None, "", "U"),
    ):
        assert changes.replayed([later])[-1] == whole


def test_a_baseline_that_repeats_a_state_begins_none() -> None:
    changes = Changes()
    changes.add("update_postimage", 1, 1, {"id": "1", "a": "x"})
    changes.add("insert", 5, 9, {"id": "1", "a": "x", "big": "b"}, stream=0)
    changes.add("insert", 7, 9, {"id": "1", "a": "new", "big": "b"}, stream=0)
    changes.add("update_postimage", 7, 1, {"id": "1", "a": "y"})
    found = [(each["is_state"], each["to_version"], each["value2"], each["operation"])
             for each in changes.replayed()]  # fmt: skip
    assert found == [
        (True, 7, None, "update, before unknown"), (False, None, "b", None), (True, 7, "b", None),
        (True, None, "b", "update"),
    ]  # fmt: skip


def test_two_rows_that_swap_their_keys_are_told_apart_by_their_old_values() -> None:
    # Under a deferrable constraint both have the key 2 for a while; whole old rows are sent.
    changes = Changes(version=2)
    one, two = {"id": "1", "a": "x", "big": "p"}, {"id": "2", "a": "y", "big": "q"}
    changes.add("insert", 1, 1, one)
    changes.add("insert", 2, 1, two)
    for seq, (before, key) in enumerate(((one, "2"), (two, "1")), start=1):
        changes.add("update_preimage", 5, seq, before)
        changes.add("update_postimage", 5, seq, {**before, "id": key})
    result = changes.replayed()
    assert states_at(result, 5) == {"1": {**two, "id": "1"}, "2": {**one, "id": "2"}}
    assert [(each["changed"], each["ended_by"]) for each in result] == [
        ([], "key change"), ([], "key change"), (["id"], None), (["id"], None),
    ]  # fmt: skip


def test_a_carried_state_keeps_its_identity_and_is_not_counted_again() -> None:
    changes = Changes()
    changes.add("update_postimage", 1, 1, {"id": "1", "a": "x"}, is_carried=True, row_id=77)
    changes.add("update_postimage", 5, 1, {"id": "1", "a": "y"})
    changes.add("insert", 6, 1, {"id": "2", "a": "y", "big": ""})
    found = [(each["row_id"], each["operation"], each["changed"], each["ended_by"])
             for each in changes.replayed()]  # fmt: skip
    assert found == [
        (77, None, [], "update"), (77, "update", ["a"], None), (digest("2"), "insert", [], None),
    ]  # fmt: skip


def test_values_that_their_column_cannot_hold_are_carried_with_their_text() -> None:
    changes = Changes()
    changes.add("insert", 1, 1, {"id": "1", "a": "x"} | {"big": None}, digest2=digest("NaN"),
                _pg_raw=[("big", "NaN"), ("a", "old")])  # fmt: skip
    changes.add("update_postimage", 2, 1, {"id": "1", "a": "y"})
    changes.add("update_postimage", 3, 1, {"id": "1", "a": "y", "big": "b"})
    found = [(each["_pg_raw"], each["changed"]) for each in changes.replayed()]
    assert found == [
        ([("big", "NaN"), ("a", "old")], []), ([("big", "NaN")], ["a"]), ([], ["big"]),
    ]  # fmt: skip


@pytest.mark.parametrize("cuts", [0, 1, 3000])
def test_a_row_lasts_until_the_first_truncation_after_it(cuts) -> None:
    # Dense in some stretches of WAL, none in most; LSNs that a float would not hold.
    dice = random.Random(cuts)

    def place() -> int:
        return (1 << 61) + (dice.randrange(60) ** 3 << 20) + dice.randrange(40)

    changes = Changes()
    order = sorted({(place(), dice.randrange(1, 4)) for _ in range(cuts)})
    changes.truncations = [(*each, BEGAN) for each in order]
    rows = [(place(), stream, dice.randrange(1, 5)) for _ in range(1000) for stream in (0, 1)]
    rows += [(lsn, stream, seq + more) for lsn, seq in order[::5] for stream in (0, 1)
             for more in (0, 1)]  # fmt: skip
    for number, (lsn, stream, seq) in enumerate(rows):
        changes.add("insert", lsn, seq, {"id": f"{number}", "a": "", "big": ""}, stream=stream)
    for each in changes.replayed():
        mine = each["_commit_version"], each["_seq"] if each["stream"] else -1
        ends = next((lsn for lsn, seq in order if (lsn, seq) >= mine), None)
        assert each["to_version"] == ends
        assert each["ended_by"] == (None if ends is None else "truncate")


def test_keys_that_moves_connect_are_one_chain() -> None:
    found = chains_of([(1, 2), (3, 4), (2, 3), (7, 8)])
    assert len({found[key] for key in (1, 2, 3, 4)}) == 1
    assert found[7] == found[8] != found[1]
    assert {*found} == {1, 2, 3, 4, 7, 8}
    many = chains_of((n, n + 1) for n in range(100_000))
    assert len({*many.values()}) == 1
