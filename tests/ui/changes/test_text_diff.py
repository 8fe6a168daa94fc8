"""Two texts as one, by word."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replview.ui.changes.value_diff import LONGEST_TEXT, text_diff

WORDS = st.lists(st.sampled_from(["a", "bc", "d e", "\n", "-", "ü", "1"]), max_size=30)
NOTE = "leave it with the neighbour, ring twice. Gift wrap for the blue mug."


def sides(before: str, after: str) -> tuple[str, str, int]:
    diff = text_diff(before, after)
    assert diff is not None
    marked = "".join(f"[{p.sign}{p.text}]" if p.sign else p.text for p in diff.pieces)
    return marked, before, diff.places


def test_words_that_went_and_came_are_marked() -> None:
    after = NOTE.replace("neighbour", "bakery next door").replace("blue", "green")

    assert sides(NOTE, after)[0::2] == (
        "leave it with the [-neighbour][+bakery next door], ring twice. "
        "Gift wrap for the [-blue][+green] mug.",
        2,
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(["same ", "more "]), min_size=8, max_size=8), WORDS, WORDS)
def test_each_side_can_be_read_from_it(around: list[str], old: list[str], new: list[str]) -> None:
    head = "".join(around)
    before, after = head + "".join(old) + head, head + "".join(new) + head
    diff = text_diff(before, after)
    if diff is None:
        return

    assert "".join(p.text for p in diff.pieces if p.sign != "+") == before
    assert "".join(p.text for p in diff.pieces if p.sign != "-") == after


def test_half_a_word_is_never_marked() -> None:
    assert sides("the quick brown foxes ran", "the quick brown foxtrot ran")[0] == (
        "the quick brown [-foxes][+foxtrot] ran"
    )


def test_a_long_stretch_without_a_change_is_left_out() -> None:
    before = "word " * 2_000 + "old" + " word" * 2_000
    diff = text_diff(before, before.replace("old", "new"))

    assert diff is not None
    assert [p.sign for p in diff.pieces] == ["…", "", "-", "+", "", "…"]
    assert sum(len(p.text) for p in diff.pieces) < 400


def test_texts_without_likeness_and_very_long_ones_stand_apart() -> None:
    assert text_diff("entirely different words", "nothing in common here at all") is None
    assert text_diff("x" * (LONGEST_TEXT + 1), "x") is None
    assert text_diff("same", "same") is None
