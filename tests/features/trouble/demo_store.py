"""A running demo's store, seen and written from outside as pages and commands do."""

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

_ALERTS = """
SELECT a.id, r.kind, r.name AS rule, s.name AS slot, a.state, a.fired_at, a.cleared_at, a.message
  FROM alert a JOIN alert_rule r ON r.id = a.rule_id LEFT JOIN watched_slot s ON s.id = a.slot_id
 WHERE a.fired_at > %s AND r.kind = %s ORDER BY a.fired_at
"""
_REQUEST = """
INSERT INTO setting (name, value, changed_at, changed_by) VALUES (%s, %s, now(), 'a test')
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = now()
"""


def environment_of(data: Path) -> dict[str, str]:
    """Return the environment variables of the demo that runs on this folder."""
    lines = (data / "env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@dataclass
class DemoStore:
    """One session in the store, one in the shop."""

    store: psycopg.Connection[dict[str, Any]]
    shop: psycopg.Connection[dict[str, Any]]

    @classmethod
    def open(cls, data: Path) -> "DemoStore":
        """Connect to the store and the shop of the demo that runs on this folder."""
        found = environment_of(data)
        return cls(
            *(
                psycopg.connect(found[name], autocommit=True, row_factory=dict_row)
                for name in ("REPLVIEW_STORE_URL", "REPLVIEW_DEMO_SOURCE_URL")
            )
        )

    def close(self) -> None:
        """Close both sessions."""
        self.store.close()
        self.shop.close()

    def request(self, name: str, wanted: bool) -> datetime:
        """Ask for a trouble or its end; when that was."""
        now = datetime.now(UTC)
        value = json.dumps({"wanted": wanted, "at": now.isoformat()})
        self.store.execute(_REQUEST, (f"trouble.{name}", value))
        return now

    def state(self, name: str) -> tuple[str, datetime, str]:
        """Return a trouble's state, the time since when, and its note."""
        value = self.setting(f"trouble.{name}.state")
        return value["state"], datetime.fromisoformat(value["since"]), value["note"]

    def setting(self, name: str) -> Any:
        """A row of ``setting``."""
        row = self.store.execute("SELECT value FROM setting WHERE name = %s", (name,)).fetchone()
        assert row is not None, name
        return row["value"]

    def wait_for_state(self, name: str, state: str, after: datetime, seconds: float) -> datetime:
        """Wait until the trouble enters this state after that time, and return when it did."""
        deadline = time.monotonic() + seconds
        while True:
            now, since, note = self.state(name)
            if now == state and since >= after:
                return since
            assert time.monotonic() < deadline, f"{name} is {now}, not {state}. {note}"
            time.sleep(0.1)

    def alerts(self, kind: str, since: datetime) -> list[dict[str, Any]]:
        """Return the alerts of a kind that fired after that time."""
        return self.store.execute(_ALERTS, (since, kind)).fetchall()

    def wait_for_alerts(
        self, kind: str, since: datetime, state: str, seconds: float, slot: str | None
    ) -> list[dict[str, Any]]:
        """All of this kind (and slot) that fired since, once there are some and all are so."""
        deadline = time.monotonic() + seconds
        while True:
            found = [row for row in self.alerts(kind, since) if slot in (None, row["slot"])]
            if found and all(row["state"] == state for row in found):
                return found
            assert time.monotonic() < deadline, f"no {kind} is {state}: {found}"
            time.sleep(0.1)
