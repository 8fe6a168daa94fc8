"""The SQLAlchemy hook: one message for each writing transaction, none for reading."""

import logging
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, Engine, create_engine, insert, select, text
from sqlalchemy.exc import IntegrityError, ProgrammingError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from replview.actors import sqlalchemy as hook
from replview.actors.sqlalchemy import actor, install
from tests.actors.conftest import Watched, rights_to_emit


class Base(DeclarativeBase):
    """The application's models."""


class Shop(Base):
    """A row of ``shop``."""

    __tablename__ = "shop"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str | None]


def url_of(dsn: str) -> URL:
    parts: dict[str, Any] = conninfo_to_dict(dsn)
    return URL.create(
        "postgresql+psycopg", parts["user"], parts["password"], parts["host"],
        int(parts["port"]), parts["dbname"],
    )  # fmt: skip


@pytest.fixture
def engine(watched: Watched) -> Iterator[Engine]:
    hook._warn_once.warned = False
    engine = create_engine(url_of(watched.source.dsn))
    yield engine
    engine.dispose()


def test_a_session_says_it_once_a_transaction(engine, watched) -> None:
    install(sessionmaker(engine), actor=lambda: "alice")
    with Session(engine) as session:
        session.scalars(select(Shop)).all()
        session.add_all([Shop(id=1), Shop(id=2)])
        session.flush()
        session.get(Shop, 1).name = "x"
        session.commit()
        session.delete(session.get(Shop, 2))
        session.commit()

    assert watched.transactions() == ["[alice] I I U", "[alice] D"]


def test_core_and_text(engine, watched) -> None:
    install(engine, actor=lambda: {"actor": "alice", "request_id": "r1"})
    with engine.begin() as connection:
        connection.execute(insert(Shop), [{"id": 1}, {"id": 2}])
        connection.execute(text("TRUNCATE shop"))

    assert watched.transactions() == ["[alice] I I T"]
    assert watched.messages == [{"actor": "alice", "request_id": "r1"}]


def test_reading_sends_nothing_and_asks_nothing(engine, watched) -> None:
    asked = []
    install(engine, actor=lambda: asked.append(1))
    with engine.begin() as connection:
        connection.execute(select(Shop).with_for_update())

    assert watched.transactions() == []
    assert asked == []


def test_a_savepoint_rolled_back_takes_the_message_along_so_it_is_sent_again(
    engine, watched
) -> None:
    install(engine, actor=lambda: "alice")
    with Session(engine) as session:
        with suppress(KeyError), session.begin_nested():
            session.execute(insert(Shop).values(id=1))
            raise KeyError
        session.execute(insert(Shop).values(id=2))
        with suppress(KeyError), session.begin_nested():
            session.execute(insert(Shop).values(id=3))
            raise KeyError
        session.execute(insert(Shop).values(id=4))
        session.commit()

    assert watched.transactions() == ["[alice] I I"]


def test_a_transaction_rolled_back_does_not_silence_the_next(engine, watched) -> None:
    install(engine, actor=lambda: "alice")
    with Session(engine) as session:
        session.execute(insert(Shop).values(id=1))
        session.rollback()
        session.execute(insert(Shop).values(id=2))
        session.commit()

    assert watched.transactions() == ["[alice] I"]


def test_a_job_names_itself(engine, watched) -> None:
    install(engine)
    with engine.begin() as connection, actor("nightly", file="prices.csv"):
        connection.execute(insert(Shop).values(id=1))
    with engine.begin() as connection:
        connection.execute(insert(Shop).values(id=2))

    assert watched.transactions() == ["[nightly] I", "I"]
    assert watched.messages == [{"actor": "nightly", "file": "prices.csv"}]


def test_under_autocommit_message_and_write_are_one_transaction(engine, watched) -> None:
    install(engine, actor=lambda: "alice")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(insert(Shop).values(id=1))
        with pytest.raises(IntegrityError):
            connection.execute(insert(Shop).values(id=1))
        connection.execute(insert(Shop).values(id=2).returning(Shop.id)).all()

    assert watched.transactions() == ["[alice] I", "[alice] I"]


def test_two_phase_commits(engine, watched) -> None:
    install(engine, actor=lambda: "alice")
    with Session(engine, twophase=True) as session:
        session.add(Shop(id=1))
        session.commit()

    assert watched.transactions() == ["[alice] I"]


async def test_async_sessions(watched) -> None:
    engine = create_async_engine(url_of(watched.source.dsn))
    sessions = async_sessionmaker(engine)
    install(sessions)
    async with sessions() as session:
        with actor("alice"):
            session.add(Shop(id=1))
            await session.commit()
    await engine.dispose()

    assert watched.transactions() == ["[alice] I"]


def test_without_the_right_the_application_goes_on_and_is_told_once(
    watched, without_right, caplog
) -> None:
    hook._warn_once.warned = False
    engine = create_engine(url_of(without_right))
    install(engine, actor=lambda: "alice")
    with caplog.at_level(logging.WARNING, "replview.actors"):
        with engine.begin() as connection:
            connection.execute(insert(Shop).values(id=1))
            connection.execute(insert(Shop).values(id=2))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(insert(Shop).values(id=3))
    engine.dispose()

    assert watched.transactions() == ["I I", "I"]
    assert len(caplog.records) == 1


def test_a_right_that_is_revoked_costs_one_transaction_and_none_under_autocommit(
    watched, without_right
) -> None:
    rights = rights_to_emit(watched)
    engine = create_engine(url_of(without_right), pool_size=1, max_overflow=0)
    install(engine, actor=lambda: "alice")

    def write(number: int, **options: Any) -> None:
        with engine.connect().execution_options(**options) as connection:
            connection.execute(insert(Shop).values(id=number))
            if not options:
                connection.commit()

    for first, options in ((1, {}), (4, {"isolation_level": "AUTOCOMMIT"})):
        watched.source.run(*(f"GRANT {right} TO mute" for right in rights))
        write(first, **options)
        watched.source.run(*(f"REVOKE {right} FROM mute" for right in rights))
        with nullcontext() if options else pytest.raises(ProgrammingError):
            write(first + 1, **options)
        write(first + 2, **options)
        engine.dispose()

    assert watched.transactions() == ["[alice] I", "I", "[alice] I", "I", "I"]


def test_a_failing_callable_never_breaks_the_write(engine, watched, caplog) -> None:
    install(engine, actor=lambda: 1 / 0)
    with engine.begin() as connection:
        connection.execute(insert(Shop).values(id=1))

    assert watched.transactions() == ["I"]
    assert "ZeroDivisionError" in caplog.text


def test_taken_away_again_it_says_nothing(engine, watched) -> None:
    remove = install(engine, actor=lambda: "alice")
    remove()
    with engine.begin() as connection:
        connection.execute(insert(Shop).values(id=1))

    assert watched.transactions() == ["I"]


def test_other_databases_are_left_alone() -> None:
    engine = create_engine("sqlite://")
    install(engine, actor=lambda: "alice")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        connection.execute(insert(Shop).values(id=1))
    engine.dispose()
