"""The receiver's memory, whatever a source sends: one very large transaction, values too large to
be held; and what is left of it a minute later.
"""

import hashlib
import time

from tests.benchmarks.bench_servers import Bench, bench
from tests.benchmarks.processes import peak_rss_bytes, rss_bytes
from tests.benchmarks.report import Result

BAR_BYTES = 150_000_000
LEFT_BYTES = 200_000_000
#: After that the memory must be given back.
_MINUTE_SECONDS = 60
_OPTIONS = {"streamed": {}, "not streamed": {"streaming": "off"}}
#: PostgreSQL makes no message of 1 GiB, so that nothing is too large without a lower limit.
_VALUES = {"kept aside": 1_000_000_000, "too large": 700 * 1024 * 1024}
_LIMITS_MB = {"kept aside": "1024", "too large": "384"}


def one_large_transaction(*, quick: bool) -> list[Result]:
    """Peak resident memory of a receiver's process: Python, Django and psycopg included."""
    rows = 600_000 if quick else 2_000_000
    with bench() as servers:
        slots = {how: how.replace(" ", "_") for how in _OPTIONS}
        with servers.slots(*slots.values()):
            end_lsn = servers.load(rows, rows)
            return [_result(servers, how, slots[how], rows, end_lsn) for how in _OPTIONS]


def _result(servers: Bench, how: str, slot: str, rows: int, end_lsn: str) -> Result:
    started = time.monotonic()
    with servers.receiver(slot, _OPTIONS[how]) as process:
        servers.wait_stored(process, slot, end_lsn)
        peak_bytes = peak_rss_bytes(process)
    seconds = time.monotonic() - started
    inserts, streamed = _stored(servers, slot)
    detail = f"{inserts:,} rows stored in {seconds:.0f} s"
    result = Result.at_most(
        f"receiver's peak memory, one transaction of {rows:,} rows, {how}",
        peak_bytes / 1e6, BAR_BYTES / 1e6, detail=detail, unit=" MB",
    )  # fmt: skip
    if inserts != rows or streamed != (how == "streamed"):
        return result.spoilt(f"stored {inserts:,} rows, streamed: {streamed}")
    return result


def _stored(servers: Bench, slot: str) -> tuple[int, bool]:
    """Rows of the slot's largest transaction, and whether it came while in progress."""
    row = servers.store_row(
        """
        SELECT t.inserts, t.streamed FROM transaction t
        JOIN slot s ON s.incarnation_id = t.incarnation_id
        WHERE s.name = %s AND t.state = 'committed' ORDER BY t.inserts DESC LIMIT 1
        """,
        slot,
    )
    return (int(str(row[0])), bool(row[1])) if row else (0, False)


def large_values(*, quick: bool) -> list[Result]:
    """Peak memory for a value that is kept aside, and one that is not kept; and what is left."""
    results = []
    with bench(logical_decoding_work_mem="64MB") as servers:
        servers.on_source(
            "CREATE TABLE large (id int PRIMARY KEY, v text)",
            "ALTER TABLE large ALTER v SET STORAGE EXTERNAL",
            "ALTER PUBLICATION bench ADD TABLE large",
        )
        for number, (how, size) in enumerate(_VALUES.items()):
            slot = how.replace(" ", "_")
            with servers.slots(slot):
                servers.on_source(
                    f"INSERT INTO large VALUES ({number}, repeat('v', {size}))",
                    f"INSERT INTO large VALUES (-1 - {number}, 'after it')",
                )
                results += _of_value(servers, how, slot, size, quick=quick)
    return results


def many_versions(*, quick: bool) -> list[Result]:
    """Peak memory while a table gets another shape 3,000 times, and one of 1,600 columns comes."""
    versions = 300 if quick else 3_000
    wide = ", ".join(f"c{number} int" for number in range(1_600))
    with bench() as servers, servers.slots("versions"):
        servers.on_source(
            "CREATE TABLE shifting (id int PRIMARY KEY, v int)",
            f"CREATE TABLE wide ({wide})",
            "ALTER PUBLICATION bench ADD TABLE shifting, wide",
            f"DO $$ BEGIN FOR n IN 1..{versions} LOOP "
            "EXECUTE format('ALTER TABLE shifting RENAME v%s TO v%s', nullif(n - 1, 0), n); "
            "INSERT INTO shifting VALUES (n); COMMIT; END LOOP; END $$",
            "INSERT INTO wide DEFAULT VALUES",
        )
        with servers.receiver("versions") as process:
            servers.wait_stored(process, "versions", servers.source_position(), seconds=900)
            peak_bytes = peak_rss_bytes(process)
        stored = servers.store_row(
            "SELECT count(*) FROM relation_version v JOIN relation r ON r.id = v.relation_id "
            "WHERE r.\"table\" IN ('shifting', 'wide')"
        )
    result = Result.at_most(
        f"receiver's peak memory, {versions:,} versions of a table and one of 1,600 columns",
        peak_bytes / 1e6, BAR_BYTES / 1e6, detail="with Python and Django", unit=" MB",
    )  # fmt: skip
    return [result if stored == (versions + 1,) else result.spoilt(f"stored {stored} versions")]


def _of_value(servers: Bench, how: str, slot: str, size: int, *, quick: bool) -> list[Result]:
    servers.environment["REPLVIEW_VALUE_LIMIT_MB"] = _LIMITS_MB[how]
    with servers.receiver(slot) as process:
        # A walsender is silent while it makes the message, and waited for longer each time.
        servers.wait_stored(process, slot, servers.source_position(), seconds=900)
        peak_bytes = peak_rss_bytes(process)
        give_up_at = time.monotonic() + _MINUTE_SECONDS
        while (left := rss_bytes(process)) > LEFT_BYTES and time.monotonic() < give_up_at:
            time.sleep(0.5)
    bar = BAR_BYTES + 3 * int(_LIMITS_MB[how]) * 1024 * 1024
    results = [
        Result.at_most(f"receiver's peak memory, a value of {size:,} bytes, {how}",
                       peak_bytes / 1e6, bar / 1e6, detail="with Python and Django", unit=" MB"),
        Result.at_most(f"what is left of it within {_MINUTE_SECONDS} s",
                       left / 1e6, LEFT_BYTES / 1e6, detail=how, unit=" MB"),
    ]  # fmt: skip
    told = servers.store_row(
        """
        SELECT c.new->'v'->>'$aside', c.new->'v'->>'$too_large', c.new->'v'->>'$sha256',
               (SELECT sum(length(content)) FROM large_value v WHERE v.transaction_id = t.id)
        FROM change c JOIN transaction t ON t.id = c.transaction_id
        JOIN slot s ON s.incarnation_id = t.incarnation_id
        WHERE s.name = %s AND jsonb_typeof(c.new->'v') = 'object'
        """,
        slot,
    )
    digest = hashlib.sha256(b"v" * size).hexdigest()
    wanted = {
        "kept aside": (str(size), None, None, size),
        "too large": (None, str(size), digest, None),
    }
    return results if told == wanted[how] else [one.spoilt(f"stored {told}") for one in results]
