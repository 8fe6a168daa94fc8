"""Exports by programs: asked for with a token, followed, cancelled, refused."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from replview.store import instance_settings
from replview.store.models import Export
from tests.support.exported_history import history as history  # a fixture
from tests.support.history_rows import History

JSON = "application/json"
URL = "/api/v1/exports"


@pytest.fixture(autouse=True)
def committed(history: History) -> None:
    """Commit the history before the program's user is made, so that both are emptied in the end."""


def test_it_is_estimated_asked_for_and_cancelled(program: Client) -> None:
    told = program.get(f"{URL}/estimate?ops=I").json()
    assert (told["rows"], told["transactions"], told["slice"]["operations"]) == (3, 2, ["insert"])

    wanted = {"slot": "shop/replview", "ops": "I", "to": "mine"}
    answer = program.post(URL, wanted, content_type=JSON)
    assert answer.status_code == 202
    row = answer.json()
    assert (row["state"], row["requested_by"], row["requested_how"]) == ("waiting", "alice", "api")
    assert [one["id"] for one in program.get(URL).json()] == [row["id"]]
    assert program.delete(f"{URL}/{row['id']}").json()["state"] == "cancelled"
    again = program.delete(f"{URL}/{row['id']}")
    assert (again.status_code, again.json()["error"]) == (
        400, f"export {row['id']} is cancelled already",
    )  # fmt: skip


def test_what_is_refused_says_why(program: Client, user: User) -> None:
    def error(**wanted: object) -> str:
        answer = program.post(URL, {"to": "mine", **wanted}, content_type=JSON)
        assert answer.status_code in (400, 404)
        return answer.json()["error"]

    assert "only folders within" in error(to="/etc")
    assert "only an admin" in error(to="s3://bucket/x")
    assert "give" in error(since_last=True) or "continues a name" in error(since_last=True)
    assert "xtra" in error(where="id = 1")
    assert "not understood" in error(since="yesterday")
    assert "no change of a table" in error(tables="public.nothing")
    instance_settings.write("exports.allowed", False, "root")
    assert "switched off" in error()
    assert program.get(f"{URL}/estimate").status_code == 400
    assert not Export.objects.exists()

    # A browser's session may look, but a forged request of it asks for nothing.
    browser = Client()
    browser.force_login(user)
    assert browser.get(URL).status_code == 200
    assert browser.post(URL, {"to": "x"}, content_type=JSON).status_code == 401
