"""A server is asked for a keepalive before it is given up."""

from django.conf import settings

from replview.receiver.sessions.pacing import (
    ALIVE_SECONDS,
    ASK_SECONDS,
    Silence,
    patience_seconds,
)

ANSWER_SECONDS = 10.0


def test_one_who_spoke_just_now_is_not_asked() -> None:
    silence = Silence(heard_at=100.0, answer_seconds=ANSWER_SECONDS)

    assert not silence.asks(100.0 + ASK_SECONDS - 0.1)
    assert not silence.is_over_long(100.0 + 1000)


def test_one_who_does_not_answer_is_given_up() -> None:
    silence = Silence(heard_at=100.0, answer_seconds=ANSWER_SECONDS)

    assert silence.asks(103.0)
    assert silence.asks(106.0)
    assert not silence.is_over_long(103.0 + ANSWER_SECONDS - 0.1)
    assert silence.is_over_long(103.0 + ANSWER_SECONDS)


def test_an_answer_begins_it_all_anew() -> None:
    silence = Silence(heard_at=100.0, answer_seconds=ANSWER_SECONDS)
    silence.asks(103.0)
    silence.heard(104.0)

    assert not silence.asks(105.0)
    assert not silence.is_over_long(200.0)


def test_patience_grows_with_each_session_given_up_and_ends() -> None:
    assert [patience_seconds(ANSWER_SECONDS, n) for n in (0, 1, 2)] == [10.0, 20.0, 40.0]
    assert patience_seconds(ANSWER_SECONDS, 60) == 640.0


def test_the_times_that_are_set_fit_one_another() -> None:
    assert 3 * settings.HEARTBEAT_SECONDS < settings.LEASE_SECONDS < settings.STORE_GONE_SECONDS
    assert 2 * ALIVE_SECONDS < settings.WALSENDER_TIMEOUT_SECONDS
