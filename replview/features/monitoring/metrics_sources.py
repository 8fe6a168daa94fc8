"""The sources: whether they answer, and what holds their WAL and their vacuum back."""

import datetime as dt
from collections.abc import Callable
from typing import Any

from django.db import connection

from replview.features.monitoring.exposition import (
    Exposition,
    Measure,
    Value,
    labels_text,
    with_label,
)

#: Every source with its last look that told something. The bound lets partitions be left aside.
LAST_LOOKS = """
SELECT source.name, source.server_version, source.in_recovery, source.max_slot_wal_keep_bytes,
       source.problem_code, source.checked_at, look.looked_at,
       last.wal_directory_bytes, last.prepared, last.oldest_prepared_seconds,
       last.running, last.oldest_running_seconds, last.took_seconds,
       last.current_lsn - '0/0'::pg_lsn AS position_bytes
FROM source
LEFT JOIN source_look AS look ON look.source_id = source.id
LEFT JOIN LATERAL (
    SELECT *
    FROM source_sample
    WHERE source_id = source.id AND reachable AND sampled_at > %(since)s
    ORDER BY sampled_at DESC
    LIMIT 1
) AS last ON true
WHERE NOT source.ephemeral
ORDER BY source.name
"""

Row = dict[str, Any]


def write_sources(scrape: Exposition, now: dt.datetime, fresh: dt.timedelta) -> None:
    """One query, however many there are."""
    rows = []
    with connection.cursor() as cursor:
        cursor.execute(LAST_LOOKS, {"since": now - fresh})
        names = [column.name for column in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(names, values, strict=True))
            row["up"] = _up(row, now, fresh)
            row["age"] = row["looked_at"] and max(0.0, (now - row["looked_at"]).total_seconds())
            rows.append((labels_text(source=row["name"]), row))
    scrape.table(MEASURES, rows)
    scrape.family("replview_source_info", "gauge", "What the source is; always 1.")
    for labels, row in rows:
        if row["server_version"] is not None:
            version = f"{row['server_version'] // 10000}.{row['server_version'] % 10000}"
            role = {None: "", True: "standby", False: "primary"}[row["in_recovery"]]
            words = with_label(with_label(labels, "version", version), "role", role)
            scrape.sample("replview_source_info", words, 1)


def _up(row: Row, now: dt.datetime, fresh: dt.timedelta) -> bool | None:
    """None: nobody has looked of late."""
    if row["checked_at"] is None or now - row["checked_at"] > fresh:
        return None
    return not row["problem_code"]


def _column(name: str) -> Callable[[Row], Value]:
    return lambda row: row[name]


def _position(row: Row) -> Value:
    return None if row["position_bytes"] is None else int(row["position_bytes"])


def _keep(row: Row) -> Value:
    limit = row["max_slot_wal_keep_bytes"]
    return None if limit is None or limit < 0 else limit


MEASURES = (
    Measure("replview_source_up", "gauge",
            "Whether the source answered the last look; absent while nobody looks.",
            _column("up")),
    Measure("replview_source_sample_age_seconds", "gauge",
            "Age of the last look that the source answered.", _column("age")),
    Measure("replview_source_sample_duration_seconds", "gauge",
            "How long that look took.", _column("took_seconds")),
    Measure("replview_source_wal_position_bytes_total", "counter",
            "Position in the WAL, in bytes: its rate is how fast the source writes WAL.",
            _position),
    Measure("replview_source_wal_directory_bytes", "gauge",
            "Size of pg_wal; absent where replview's role may not see it.",
            _column("wal_directory_bytes")),
    Measure("replview_source_slot_wal_limit_bytes", "gauge",
            "max_slot_wal_keep_size; absent where nothing limits what slots retain.", _keep),
    Measure("replview_source_prepared_transactions", "gauge",
            "Transactions that wait for COMMIT PREPARED or ROLLBACK PREPARED.",
            _column("prepared")),
    Measure("replview_source_oldest_prepared_seconds", "gauge",
            "Age of the oldest of them.", _column("oldest_prepared_seconds")),
    Measure("replview_source_running_transactions", "gauge",
            "Sessions with an xid or a snapshot.", _column("running")),
    Measure("replview_source_oldest_transaction_seconds", "gauge",
            "Age of the oldest transaction that runs.", _column("oldest_running_seconds")),
)  # fmt: skip
