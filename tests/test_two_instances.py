"""Two instances with a store each share one Redis, and neither hears the other."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from channels_redis.core import RedisChannelLayer
from kombu import Connection, Exchange, Queue

from replview.live.publisher import InstanceChannelLayer
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.runtime.servers.redis import EmbeddedRedis
from replview.store import identity

ROOT = Path(__file__).parent.parent
TOLD = """
import django; django.setup()
from channels.layers import get_channel_layer
from replview.celery import app
print(app.conf.broker_transport_options["global_keyprefix"], get_channel_layer().prefix)
"""


@pytest.fixture(scope="module")
def stores(store_cluster: EmbeddedPostgres) -> Iterator[tuple[str, str]]:
    """Two teams' stores: here two databases of one cluster, which differ the least."""
    with psycopg.connect(store_cluster.dsn(), autocommit=True) as session:
        for name in ("team_a", "team_b"):
            session.execute(f"CREATE DATABASE {name}")
        yield store_cluster.dsn("team_a"), store_cluster.dsn("team_b")
        for name in ("team_a", "team_b"):
            session.execute(f"DROP DATABASE {name} WITH (FORCE)")


def digest_of(store: str) -> str:
    """Return the digest that tells a store apart."""
    with psycopg.connect(store) as session:
        row = session.execute(identity._IDENTITY).fetchone()
    return hashlib.sha256(row[0].encode()).hexdigest()[:12]


def told_by(store: str) -> tuple[str, str]:
    """The prefixes that a process of this instance uses: of its tasks and of its wake-ups."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("REPLVIEW_")}  # fmt: skip
    environment |= {"REPLVIEW_STORE_URL": store, "DJANGO_SETTINGS_MODULE": "replview.settings"}
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", TOLD], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    tasks, wakes = found.stdout.split()
    return tasks, wakes


@pytest.mark.slow
def test_each_process_finds_its_instance_by_its_store(
    stores: tuple[str, str], redis_server: EmbeddedRedis
) -> None:
    # The same store by another address is the same instance.
    a = told_by(stores[0].replace("127.0.0.1", "localhost"))
    b = told_by(stores[1])
    assert a != b
    assert a == (f"{a[1]}-", f"replview-{digest_of(stores[0])}")

    asyncio.run(_wake_ups_stay(redis_server.url(), a[1], b[1]))
    _tasks_stay(redis_server.url(), a[0], b[0])


async def _wake_ups_stay(redis: str, a: str, b: str) -> None:
    layers = [RedisChannelLayer(hosts=[redis], prefix=prefix) for prefix in (a, b)]
    heard = []
    for layer in layers:
        channel = await layer.new_channel()
        await layer.group_add("slot.1", channel)
        heard.append(asyncio.create_task(layer.receive(channel)))
    await layers[0].group_send("slot.1", {"type": "wake"})
    assert await asyncio.wait_for(heard[0], 10) == {"type": "wake"}
    assert not (await asyncio.wait(heard[1:], timeout=0.3))[0]
    heard[1].cancel()
    for layer in layers:
        await layer.flush()
        await layer.close_pools()


def _tasks_stay(redis: str, a: str, b: str) -> None:
    """A worker's queue, and the exchange by which all workers are asked whether they are there."""
    fanout = Exchange("celery.pidbox", type="fanout", durable=False)
    with (
        Connection(redis, transport_options={"global_keyprefix": a}) as of_a,
        Connection(redis, transport_options={"global_keyprefix": b}) as of_b,
    ):
        heard: dict[str, list[str]] = {"a": [], "b": []}
        consumers = []
        for name, connection in (("a", of_a), ("b", of_b)):
            queues = [
                Queue("receivers", Exchange("receivers"), routing_key="receivers"),
                Queue(f"ping-{name}", fanout, auto_delete=True, durable=False),
            ]
            consumer = connection.Consumer(queues, no_ack=True, accept=["json"])
            consumer.register_callback(lambda body, _, name=name: heard[name].append(body))
            consumer.consume()
            consumers.append(consumer)
        # Who listens to all says so to Redis when it first waits.
        _drain(of_a, of_b)
        producer = of_a.Producer(serializer="json")
        producer.publish("task", exchange="receivers", routing_key="receivers")
        producer.publish("ping", exchange=fanout)
        _drain(of_a, of_b)
        for consumer in consumers:
            consumer.cancel()
    assert sorted(heard["a"]) == ["ping", "task"]
    assert heard["b"] == []


def _drain(*connections: Connection) -> None:
    for _ in range(10):
        for connection in connections:
            try:
                connection.drain_events(timeout=0.05)
            except TimeoutError:
                continue


def test_without_a_store_there_is_a_name_too(settings) -> None:
    settings.STORE_URL, settings.INSTANCE = "", ""
    assert identity.redis_prefix() == "replview"
    settings.INSTANCE = "east"
    assert identity.redis_prefix() == "replview-east"
    layer = InstanceChannelLayer(hosts=["redis://127.0.0.1:1"])
    assert layer.prefix == "replview-east"


def test_whoever_starts_with_the_store_waits_for_it(settings, monkeypatch) -> None:
    settings.STORE_URL, settings.INSTANCE = "postgresql://x/", ""
    answers = iter([psycopg.OperationalError(), psycopg.OperationalError(), "abc"])

    def digest() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(identity, "_digest", digest)
    monkeypatch.setattr(identity, "AGAIN_SECONDS", 0)
    assert identity.awaited_redis_prefix() == "replview-abc"
