"""Updates that changed nothing can be hidden; what is not known is never taken for unchanged."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.support.people import said
from tests.support.source_databases import SourceDatabase

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

TABLE = "CREATE TABLE {0} (id int PRIMARY KEY, a text, big text)"


def numbers(page: str) -> list[int]:
    """Return the ``seq`` numbers of the changes that the page shows."""
    return [int(seq) for seq in re.findall(r'data-seq="(\d+)"', page)]


def test_updates_that_changed_nothing_are_hidden_and_counted(
    source: SourceDatabase, record: Any, signed_in: Client, settings
) -> None:
    settings.STORE_URL = "postgresql://the-test-store/"
    source.run(*(TABLE.format(name) for name in ("known", "whole", "unknown")))
    source.run("ALTER TABLE whole REPLICA IDENTITY FULL",
               "ALTER TABLE known ALTER big SET STORAGE EXTERNAL",
               "INSERT INTO whole VALUES (1, 'x')",
               "INSERT INTO unknown VALUES (1, 'x')")  # fmt: skip
    recording = record(source)
    source.run("INSERT INTO known VALUES (1, 'x', repeat('y', 9000))")
    source.run("""
        BEGIN;
        UPDATE known SET a = a; UPDATE whole SET a = a; UPDATE unknown SET a = a;
        UPDATE known SET a = 'z'; UPDATE whole SET a = NULL; UPDATE unknown SET a = 'z';
        UPDATE known SET id = 2; UPDATE unknown SET a = 'z';
        COMMIT""")
    recording.caught_up()
    address = f"/transactions/{recording.transactions()[-1].pk}/"

    whole = signed_in.get(address).content.decode()
    assert numbers(whole) == list(range(1, 9))
    assert "?unchanged=hidden" in whole
    hidden = signed_in.get(f"{address}?unchanged=hidden").content.decode()
    # Whether the third changed anything is unknown; the sixth shows that the last did not.
    assert numbers(hidden) == [3, 4, 5, 6, 7]
    words = said(signed_in, f"{address}?unchanged=hidden")
    assert "3 updates of this page changed no value and are hidden" in words
    only = said(signed_in, f"{address}?unchanged=hidden&table=public.whole&ops=U")
    assert "1 update of this page changed no value and is hidden" in only

    # The API and the command hide the same.
    slot, number = str(recording.slot), recording.transactions()[-1].pk
    for of in (f"transactions/{number}/changes", "changes", "history"):
        given = {"slot": slot, "unchanged": "hidden", "ops": "U"}
        answer = signed_in.get(f"/api/v1/{of}", given).json()
        assert sorted(each["seq"] for each in answer["items"]) == [3, 4, 5, 6, 7], of
        assert answer["hidden"] == 3
        assert signed_in.get(f"/api/v1/{of}", {**given, "unchanged": ""}).json()["hidden"] == 0
        assert signed_in.get(f"/api/v1/{of}", {**given, "unchanged": "no"}).status_code >= 400
    for limit, told in ((2, 2), (9, 3)):
        out, errors = StringIO(), StringIO()
        words = ["--op", "update", "--hide-unchanged", "--limit", str(limit)]
        call_command("changes", "--slot", slot, *words, stdout=out, stderr=errors)
        numbers_of = [json.loads(line)["seq"] for line in out.getvalue().splitlines()]
        assert numbers_of == [3, 4, 5, 6, 7][:limit]
        assert errors.getvalue() == f"left out {told} updates that changed no value\n"
