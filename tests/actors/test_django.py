"""The Django middleware: one message for each writing transaction, none for reading."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError, ProgrammingError, connections, transaction
from django.test import RequestFactory
from psycopg.conninfo import conninfo_to_dict

from replview.actors import django as hook
from replview.actors.django import ActorMiddleware, actor, say_now
from tests.actors.conftest import Watched, rights_to_emit

ALICE = SimpleNamespace(is_authenticated=True, get_username=lambda: "alice")


def _address(dsn: str) -> dict[str, Any]:
    parts = conninfo_to_dict(dsn)
    return {
        **connections.settings["default"],
        "HOST": parts["host"],
        "PORT": parts["port"],
        "USER": parts["user"],
        "PASSWORD": parts["password"],
        "NAME": parts["dbname"],
        "OPTIONS": {},
        "ATOMIC_REQUESTS": False,
    }


@pytest.fixture
def shop(watched: Watched, django_db_blocker) -> Iterator[Any]:
    """The application's database ``shop``, as Django connects to it."""
    connections.settings["shop"] = _address(watched.source.dsn)
    hook._warn_once.warned = False
    with django_db_blocker.unblock():
        with connections["shop"].cursor() as cursor:
            cursor.execute("CREATE TABLE auth_group (id serial PRIMARY KEY, name text)")
        watched.transactions()
        yield connections["shop"]
        connections["shop"].close()
    del connections["shop"]
    del connections.settings["shop"]


def run(sql: str, parameters: Any = None) -> None:
    with connections["shop"].cursor() as cursor:
        cursor.execute(sql, parameters)


def insert(number: int) -> None:
    run("INSERT INTO shop VALUES (%s, 'x')", [number])


def request(work: Any, *, user: Any = ALICE, **extra: Any) -> Any:
    """Run ``work`` as a view."""

    def view(request: Any) -> str:
        work()
        return "answer"

    made = RequestFactory().get("/orders/7/pay", **extra)
    made.user = user
    assert ActorMiddleware(view)(made) == "answer"


def test_in_autocommit_mode_message_and_write_are_one_transaction(shop, watched) -> None:
    request(lambda: (insert(1), insert(2)))

    assert watched.transactions() == ["[alice] I", "[alice] I"]
    assert shop.get_autocommit()


def test_an_atomic_block_says_it_once_before_its_first_write(shop, watched) -> None:
    def work() -> None:
        with transaction.atomic("shop"):
            run("SELECT * FROM shop")
            insert(1)
            run("UPDATE shop SET name = 'y'")
        with transaction.atomic("shop"):
            run("DELETE FROM shop")

    request(work)

    assert watched.transactions() == ["[alice] I U", "[alice] D"]


def test_reading_sends_nothing_and_looks_at_no_user(shop, watched) -> None:
    looked = []
    user = SimpleNamespace(is_authenticated=property(lambda self: looked.append(1)))

    def work() -> None:
        with transaction.atomic("shop"):
            run("SELECT * FROM shop FOR UPDATE")
            list(Group.objects.using("shop").iterator())

    request(work, user=user)

    assert watched.transactions() == []
    assert looked == []


def test_a_savepoint_rolled_back_takes_the_message_along_so_it_is_sent_again(shop, watched) -> None:
    def work() -> None:
        with transaction.atomic("shop"):
            with suppress(KeyError), transaction.atomic("shop"):
                insert(1)
                raise KeyError
            insert(2)
            with suppress(KeyError), transaction.atomic("shop"):
                insert(3)
                raise KeyError
            insert(4)

    request(work)

    assert watched.transactions() == ["[alice] I I"]


def test_savepoints_within_savepoints(shop, watched) -> None:
    def work() -> None:
        with transaction.atomic("shop"), transaction.atomic("shop"):
            with suppress(KeyError), transaction.atomic("shop"), transaction.atomic("shop"):
                insert(1)
                raise KeyError
            insert(2)

    request(work)

    assert watched.transactions() == ["[alice] I"]


def test_a_transaction_rolled_back_does_not_silence_the_next(shop, watched) -> None:
    def work() -> None:
        with suppress(KeyError), transaction.atomic("shop"):
            insert(1)
            raise KeyError
        with transaction.atomic("shop"):
            insert(2)

    request(work)

    assert watched.transactions() == ["[alice] I"]


def test_a_failed_statement_is_the_applications_error(shop, watched) -> None:
    def work() -> None:
        insert(1)
        with pytest.raises(IntegrityError):
            insert(1)
        insert(2)

    request(work)

    assert watched.transactions() == ["[alice] I", "[alice] I"]


def test_the_orm_executemany_and_with_statements(shop, watched) -> None:
    def work() -> None:
        Group.objects.using("shop").bulk_create([Group(name="a"), Group(name="b")])
        with shop.cursor() as cursor:
            cursor.executemany("INSERT INTO shop VALUES (%s)", [(1,), (2,)])
        run("WITH gone AS (DELETE FROM shop RETURNING id) SELECT * FROM gone")
        run("TRUNCATE shop")

    request(work)

    assert watched.transactions() == ["[alice] I I", "[alice] I I", "[alice] D D", "[alice] T"]


def test_what_a_request_tells(shop, watched) -> None:
    request(lambda: insert(1), headers={"X-Request-ID": "r-1"})

    watched.transactions()
    assert watched.messages == [
        {"actor": "alice", "method": "GET", "path": "/orders/7/pay", "request_id": "r-1"}
    ]


def test_of_an_anonymous_request_the_context_alone_is_told(shop, watched) -> None:
    request(lambda: insert(1), user=SimpleNamespace(is_authenticated=False))

    assert watched.transactions() == ["[] I"]
    assert watched.messages[0]["path"] == "/orders/7/pay"


def test_the_setting_names_who_acts(shop, watched, settings) -> None:
    settings.REPLVIEW_ACTOR = "tests.actors.test_django.tenant_of"
    request(lambda: insert(1))

    watched.transactions()
    assert (watched.messages[0]["actor"], watched.messages[0]["tenant"]) == ("acme/alice", 7)


def tenant_of(request: Any) -> dict[str, Any]:
    return {"actor": f"acme/{request.user.get_username()}", "tenant": 7}


def test_a_job_names_itself_and_an_inner_name_counts_inside(shop, watched) -> None:
    with actor("nightly", file="prices.csv"), transaction.atomic("shop"):
        insert(1)
        with actor("importer"):
            insert(2)

    assert watched.transactions() == ["[nightly] I [importer] I"]
    assert watched.messages[0] == {"actor": "nightly", "file": "prices.csv"}


def test_nobody_named_nothing_sent(shop, watched) -> None:
    insert(1)

    assert watched.transactions() == ["I"]


def test_texts_of_any_kind_arrive(shop, watched) -> None:
    name = 'O\'Neill \\ "ü" 漢 %s'
    with actor(name, note="x" * 10_000):
        insert(1)

    watched.transactions()
    assert watched.messages[0]["actor"] == name
    assert len(watched.messages[0]["note"]) == 500


def test_said_by_hand_before_a_copy(shop, watched) -> None:
    with actor("loader"), transaction.atomic("shop"):
        say_now("shop")
        with shop.cursor() as cursor, cursor.copy("COPY shop FROM STDIN") as copy:
            copy.write_row((1, "x"))

    assert watched.transactions() == ["[loader] I"]


def test_without_the_right_the_application_goes_on_and_is_told_once(
    shop, watched, without_right, caplog
) -> None:
    shop.close()
    shop.settings_dict.update(_address(without_right))
    with caplog.at_level(logging.WARNING, "replview.actors"), actor("alice"):
        with transaction.atomic("shop"):
            run("SELECT 1")
            insert(1)
        shop.close()
        insert(2)
        shop.close()
        with transaction.atomic("shop"):
            insert(3)
            insert(4)

    assert watched.transactions() == ["I", "I", "I I"]
    assert len(caplog.records) == 1
    assert "goes on unsaid" in caplog.text


def test_a_right_that_is_revoked_costs_one_transaction_and_none_in_autocommit_mode(
    shop, watched, without_right
) -> None:
    rights = rights_to_emit(watched)
    shop.close()
    shop.settings_dict.update(_address(without_right))
    with actor("alice"):
        watched.source.run(*(f"GRANT {right} TO mute" for right in rights))
        insert(1)
        watched.source.run(*(f"REVOKE {right} FROM mute" for right in rights))
        with pytest.raises(ProgrammingError), transaction.atomic("shop"):
            insert(2)
        with transaction.atomic("shop"):
            insert(3)
        shop.close()
        watched.source.run(*(f"GRANT {right} TO mute" for right in rights))
        insert(4)
        watched.source.run(*(f"REVOKE {right} FROM mute" for right in rights))
        insert(5)
        insert(6)

    assert watched.transactions() == ["[alice] I", "I", "[alice] I", "I", "I"]


def test_a_failing_callable_never_breaks_the_write(shop, watched, settings, caplog) -> None:
    settings.REPLVIEW_ACTOR = lambda request: 1 / 0
    request(lambda: insert(1))

    assert watched.transactions() == ["I"]
    assert "ZeroDivisionError" in caplog.text


def test_the_applications_query_counts_stay_what_they_are(shop, watched) -> None:
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(shop) as seen, actor("alice"):
        insert(1)

    assert len(seen) == 1


def test_an_execute_wrapper_of_the_application_leaves_ours_in_place(shop, watched) -> None:
    shop.close()
    with shop.execute_wrapper(lambda execute, *rest: execute(*rest)), actor("alice"):
        insert(1)
    with actor("alice"):
        insert(2)

    assert watched.transactions() == ["[alice] I", "[alice] I"]


def test_other_databases_are_left_alone(tmp_path, django_db_blocker) -> None:
    connections.settings["lite"] = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "lite"),
        "OPTIONS": {},
    }
    with django_db_blocker.unblock(), actor("alice"), connections["lite"].cursor() as cursor:
        cursor.execute("CREATE TABLE t (n int)")
        cursor.execute("INSERT INTO t VALUES (1)")
        assert connections["lite"].execute_wrappers == []
    connections["lite"].close()
    del connections["lite"]
    del connections.settings["lite"]


async def test_async_requests_each_with_their_own_actor(shop, watched) -> None:
    async def view(request: Any) -> str:
        await sync_to_async(in_a_thread)(int(request.path.strip("/")))
        return "answer"

    def in_a_thread(number: int) -> None:
        insert(number)
        connections["shop"].close()

    middleware = ActorMiddleware(view)
    for number, name in ((1, "alice"), (2, "bob")):
        made = RequestFactory().get(f"/{number}/")
        made.user = SimpleNamespace(is_authenticated=True, get_username=lambda name=name: name)
        assert await middleware(made) == "answer"

    assert watched.transactions() == ["[alice] I", "[bob] I"]
    assert hook._claim.get() is None
