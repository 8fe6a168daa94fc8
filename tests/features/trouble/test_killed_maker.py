"""The process that makes troubles is killed: the next one leaves nothing of what it made."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from replview.demo.trouble.maker import KINDS, _clean_up
from replview.demo.trouble.place import OUR_SLOT, Trouble, TroubleSite
from replview.demo.trouble.rules import switch_on
from replview.store import demo_troubles as troubles
from replview.store.models import AlertRule

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

#: Makes them one after another, says so, and keeps all of them up.
_MAKE = """
import os, sys, time
from pathlib import Path
import django
django.setup()
from replview.demo.trouble.maker import KINDS
from replview.demo.trouble.place import TroubleSite
place = TroubleSite(dsn=sys.argv[1], data=Path(sys.argv[2]))
made = [kind(place).make() for kind in KINDS if kind.name in sys.argv[3:]]
for steps in made:
    while not next(steps):
        pass
print("there", flush=True)
time.sleep(60)
"""
_LEFT = """
SELECT (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
       (SELECT count(*) FROM pg_stat_activity
         WHERE application_name LIKE 'trouble%' AND datname = current_database()),
       (SELECT count(*) FROM pg_replication_slots
         WHERE database = current_database() AND slot_name <> 'replview')
"""
MADE = ("prepared-transaction", "long-transaction", "idle-slot")


def test_the_next_one_cleans_up_what_a_killed_one_left(source, tmp_path: Path) -> None:
    source.run(
        "CREATE TABLE audit_notes (id serial PRIMARY KEY, subject text, author text, body text)",
        f"SELECT pg_create_logical_replication_slot('{OUR_SLOT}', 'pgoutput')",
    )
    made: list[Trouble] = [
        kind(TroubleSite(dsn=source.dsn, data=tmp_path)) for kind in KINDS if kind.name in MADE
    ]
    for trouble in made:
        troubles.request(trouble.name, True, "somebody")
        troubles.report_state(trouble.name, troubles.TroubleState.ON)
        switch_on(trouble)
    with subprocess.Popen(
        [sys.executable, "-c", _MAKE, source.dsn, str(tmp_path), *MADE],
        stdout=subprocess.PIPE,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "replview.settings"},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            with source.connect() as connection:
                assert connection.execute(_LEFT).fetchone()[::2] == (1, 1)
        finally:
            process.kill()

    assert _clean_up(made, threading.Event())

    with source.connect() as connection:
        assert connection.execute(_LEFT).fetchone() == (0, 0, 0)
    assert troubles.wanted() == set()
    assert {told.state for told in troubles.read()} == {troubles.TroubleState.OFF}
    assert not AlertRule.objects.filter(name__startswith="demo: ", enabled=True).exists()
