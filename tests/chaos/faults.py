"""The faults. Each strikes a receiver that was just seen live, and says when the harm was over.

A fault is a function of the ``Scene``; it returns the moment from which recovery counts. Those of
the network are in ``link_faults``; others can be added with ``fault``.
"""

import random
import signal
import time

from replview.runtime.machine import StackProblem
from replview.runtime.servers.postgres import EmbeddedPostgres
from tests.chaos import link_faults  # noqa: F401 - adds its own
from tests.chaos.scene import FAULTS, NEW_SESSION, UNDISTURBED, Fault, Scene, fault


@fault(bar_seconds=15.0)
def receiver_killed(scene: Scene) -> float:
    """kill -9 of the whole process (under Celery: of the worker)."""
    scene.holder.kill()
    killed = time.monotonic()
    scene.fleet.pause_before_restart()
    scene.fleet.start()
    return killed


@fault()
def receiver_terminated(scene: Scene) -> float:
    """SIGTERM: it lets the slot go."""
    told = time.monotonic()
    scene.holder.end()
    scene.fleet.start()
    return told


@fault(slow=True)
def receiver_paused(scene: Scene) -> float:
    """Stopped for longer than its lease; another takes over; then it wakes, and must not write."""
    scene.holder.signal(signal.SIGSTOP)
    paused = time.monotonic()
    try:
        scene.visibility.live_again(scene.before)
        return paused
    finally:
        scene.holder.signal(signal.SIGCONT)


@fault()
def walsender_terminated(scene: Scene) -> float:
    """The sessions of replview on the source, ended by an administrator."""
    with scene.servers.on_source() as source:
        source.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'replview%'"
        )
    return time.monotonic()


@fault()
def copy_terminated(scene: Scene) -> float:
    """The store's backend that takes the changes, ended while it does."""
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = "
        "current_database() AND application_name = 'replview receiver' AND query LIKE %s"
    )
    with scene.servers.on_store() as store:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            row = store.execute(query + " AND state = 'active'", ["COPY change%"]).fetchone()
            if row and row[0]:
                return time.monotonic()
        store.execute(query, ["%"])
    return time.monotonic()


@fault()
def store_restarted(scene: Scene) -> float:
    """A fast shutdown, and up again."""
    return _restart(scene, scene.servers.store, "fast")


@fault()
def store_crashed(scene: Scene) -> float:
    """An immediate shutdown: crash recovery follows."""
    return _restart(scene, scene.servers.store, "immediate")


@fault()
def source_restarted(scene: Scene) -> float:
    """A fast shutdown, which waits until the receiver has everything."""
    return _restart(scene, scene.servers.source, "fast")


@fault()
def source_crashed(scene: Scene) -> float:
    """An immediate shutdown: commits nobody waited for may be gone."""
    return _restart(scene, scene.servers.source, "immediate")


@fault(shows=UNDISTURBED, celery=True)
def redis_gone(scene: Scene) -> float:
    """The broker and channel layer away for seconds: receiving goes on."""
    scene.servers.redis.stop()
    time.sleep(scene.rng.uniform(2, 5))
    scene.servers.redis.start()
    return time.monotonic()


@fault(shows=UNDISTURBED)
def second_worker(scene: Scene) -> float:
    """A further receiver is started for the slot, and must not get it."""
    intruder = scene.fleet.intruder()
    intruder.start()
    time.sleep(5)
    intruder.kill()
    return time.monotonic()


def _restart(scene: Scene, server: EmbeddedPostgres, mode: str) -> float:
    try:
        server.stop(mode=mode)
    except StackProblem:
        server.stop(mode="immediate")
    time.sleep(scene.rng.uniform(0.0, 2.0))
    server.start()
    return time.monotonic()


def draw(rng: random.Random, *, hits: int, celery: bool) -> list[Fault]:
    """The faults of a run: one kill, others at random, at most two that take long."""
    there = [one for one in FAULTS.values() if celery or not one.celery]
    quick = [one for one in there if one.shows == NEW_SESSION and not one.slow]
    slow = [one for one in there if one.slow]
    gentle = [one for one in there if one.shows == UNDISTURBED]
    kill = FAULTS["receiver killed"]
    others = [one for one in quick if one is not kill]
    many_slow = 0 if hits < 4 else 2
    drawn = [kill, *rng.sample(slow, many_slow)]
    drawn += rng.sample(others, min(len(others), max(0, hits - len(drawn))))
    rng.shuffle(drawn)
    drawn.insert(rng.randint(0, len(drawn)), rng.choice(gentle))
    return drawn
