"""The names of histories, and how few runs make one that fails smaller."""

import pytest

from tests.support.named_histories import Named, chosen


@pytest.mark.parametrize("name", ["401", "401:2,5", "7::0-63,70", "7:0:299"])
def test_a_name_says_what_is_played(name: str) -> None:
    named = Named.parse(name)

    assert str(named) == name
    assert named.is_whole == (":" not in name)


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="names no history"):
        Named.parse("rows_1")


def test_a_run_begins_with_those_that_failed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HISTORIES", "SEED", "SEEDS"):
        monkeypatch.delenv(name, raising=False)
    kept = ["33", "411", "409", "2015:0,3-5,9:46,60,72,95-96,98"]
    kept.append("7025:1,3-4,8:195-228,246-260")
    assert [str(name) for name in chosen()] == [*kept, "0"]
    monkeypatch.setenv("HISTORIES", "1000")
    assert len(chosen()) == len(set(chosen())) == 100
    monkeypatch.setenv("SEED", "200")
    assert [name.seed for name in chosen()] == list(range(200, 300))
    monkeypatch.setenv("SEEDS", "7 8:1:2-4")
    assert chosen() == [Named(7), Named(8, frozenset({1}), frozenset({2, 3, 4}))]


def test_a_few_runs_make_what_fails_much_smaller() -> None:
    played: list[Named] = []

    def fails(name: Named) -> bool:
        played.append(name)
        return 3 in name.tables and name.transactions >= {70, 200}

    found = Named(7).smaller(fails)

    assert str(found) == "7:3:70,200"
    assert len(played) < 150
    assert Named(7).smaller(fails, seconds=0.0) == Named(7)
