"""Beat offers a slot that nobody reads to the worker with the fewest slots."""

from collections import Counter

from replview.features.receiving.tasks import choose_worker

WORKERS = ["receivers-a@one", "receivers-b@two", "receivers-c@three"]


def test_the_worker_with_the_fewest_slots_is_asked() -> None:
    load = Counter({"receivers-a@one": 2, "receivers-b@two": 1, "receivers-c@three": 2})

    assert choose_worker(WORKERS, load, former="") == "receivers-b@two"


def test_a_worker_whose_lease_ran_out_is_asked_last() -> None:
    """A worker whose lease ran out may answer pings although its link to the store is silent."""
    load = Counter({"receivers-b@two": 3, "receivers-c@three": 2})

    assert choose_worker(WORKERS, load, former="receivers-a@one") == "receivers-c@three"
    assert choose_worker(["receivers-a@one"], load, former="receivers-a@one") == "receivers-a@one"


def test_workers_with_as_many_slots_are_asked_in_turn() -> None:
    asked = {choose_worker(WORKERS, Counter(), former="") for _ in range(200)}

    assert asked == set(WORKERS)
