"""Numbers as words, remedies in parts, sparklines with their gaps."""

import pytest

from replview.text.formats import (
    age_words,
    bytes_words,
    rate_words,
    short_words,
    shortened,
    some_of,
    version_words,
)
from replview.text.problem import split_remedy
from replview.ui.charts.sparkline import sparkline

GB = 1 << 30


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 B"), (84, "84 B"), (1229, "1.2 kB"), (96 << 20, "96 MB"),
     (int(1.7 * (1 << 20)), "1.7 MB"),
     (int(32.2 * GB), "32.2 GB"), (64 * GB, "64 GB"), (8 * GB, "8 GB"), (1023 << 20, "1023 MB"),
     ((1 << 30) - 1, "1 GB"), (-2048, "-2 kB")],
)  # fmt: skip
def test_bytes_have_postgresqls_units(number: int, words: str) -> None:
    assert bytes_words(number).replace("\xa0", " ") == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (-3, "0 s"), (41.9, "41 s"), (266, "4 min 26 s"), (961, "16 min"),
     (33120, "9 h 12 min"), (7200, "2 h"), (90000, "1 d 1 h")],
)  # fmt: skip
def test_ages_have_two_units_at_most(seconds: float, words: str) -> None:
    assert age_words(seconds).replace("\xa0", " ") == words


def test_delays_and_rates() -> None:
    assert short_words(41_000) == "41\xa0ms"
    assert short_words(1_240_000) == "1.2\xa0s"
    assert rate_words(0) == "0\xa0tx/s"
    assert rate_words(0.42) == "0.4\xa0tx/s"
    assert rate_words(1840) == "1,840\xa0tx/s"
    assert rate_words(1730, "changes") == "1,730\xa0changes/s"
    assert version_words(160014) == "PG 16.14"
    assert version_words(None) == "version unknown"


def test_a_long_text_is_cut_to_the_limit() -> None:
    assert shortened("invoices", 8) == "invoices"
    assert shortened("invoices_2026", 8) == "invoice…"


def test_a_long_list_of_names_ends_with_their_number() -> None:
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@pytest.mark.parametrize(
    ("text", "before", "run", "after"),
    [
        ("See the server's log", "See the server's log", "", ""),
        ("ALTER ROLE x LOGIN", "", "ALTER ROLE x LOGIN;", ""),
        ("ALTER ROLE x REPLICATION (or as managed)", "", "ALTER ROLE x REPLICATION;",
         "(or as managed)"),
        ("End it: SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots",
         "End it:", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots;", ""),
        ("ALTER SYSTEM SET max_wal_senders = 20, then restart the server", "",
         "ALTER SYSTEM SET max_wal_senders = 20;", "then restart the server"),
    ],
)  # fmt: skip
def test_a_remedy_falls_into_words_and_what_is_run(
    text: str, before: str, run: str, after: str
) -> None:
    remedy = split_remedy(text)

    assert (remedy.before, remedy.run, remedy.after) == (before, run, after)


def test_a_gap_in_the_samples_is_never_drawn_across() -> None:
    drawn = sparkline({0: 10, 1: 20, 8: 30, 9: 30}, 10, present_known=True)

    assert len(drawn.lines) == 2
    assert len(drawn.unknown) == 1
    assert drawn.dot is not None


def test_an_unknown_present_is_hatched_and_has_no_point() -> None:
    drawn = sparkline({0: 10, 1: 20}, 10, present_known=False)

    assert drawn.dot is None
    ((start, width),) = drawn.unknown
    assert start + width == pytest.approx(165, abs=1)


def test_nothing_sampled_draws_nothing() -> None:
    assert sparkline({}, 10, present_known=True).lines == ()
