"""Connect to the store; where that fails, say what to do."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import psycopg

from replview.text.problem import CodedProblem

#: The environment variable of the store's address; the option ``dsn`` takes precedence.
ENVIRONMENT = "REPLVIEW_STORE_URL"

StoreConnection = psycopg.Connection[tuple[Any, ...]]

_SETTINGS = (
    "SET timezone = 'UTC'; SET client_encoding = 'UTF8'; SET datestyle = 'ISO'; "
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; "
    # Ranges are read in parallel, so that the COPY of one range need not be.
    "SET jit = off; SET work_mem = '64MB'; "
    "SET max_parallel_workers_per_gather = 0; SET search_path = public; "
    "SET default_transaction_read_only = on"
)


class StoreProblem(CodedProblem):
    """The store cannot answer a request; ``remedy`` says what to do."""

    code_of_all = "store"

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return the beginning of a remedy; empty where no known name is similar."""
    like = get_close_matches(name, known, 1)
    return f"did you mean {like[0]}? " if like else ""


def store_dsn(dsn: str | None = None) -> str:
    """Return the given address of the store, or the environment's. Raises ``StoreProblem``."""
    found = dsn or os.environ.get(ENVIRONMENT)
    if not found:
        raise StoreProblem(
            "no store is named", f"give the option dsn, or set {ENVIRONMENT} in the environment"
        )
    return found


def connect(dsn: str | None = None) -> StoreConnection:
    """Open a session of the store: autocommit, read-only, UTC. Raises ``StoreProblem``."""
    try:
        connection = psycopg.connect(
            store_dsn(dsn), autocommit=True, connect_timeout=10, application_name="replview spark"
        )
        connection.execute(_SETTINGS)
    except psycopg.Error as error:
        raise StoreProblem(_cause(error), _REMEDY) from None
    if connection.execute("SELECT to_regclass('public.slot_incarnation')").fetchone() == (None,):
        connection.close()
        raise StoreProblem(
            "this database is no store of replview",
            f"point dsn or {ENVIRONMENT} at the database that 'replview up' was given",
        )
    return connection


_REMEDY = f"check that PostgreSQL runs there, and that dsn or {ENVIRONMENT} names it correctly"


def _cause(error: psycopg.Error) -> str:
    """Return the cause of libpq's error without the address, which may hold a password."""
    words = str(error).lower()
    for sign, cause in (
        ("password", "the store refused the password"),
        ("no pg_hba.conf entry", "the store allows no connection from here"),
        ("does not exist", "the store's database or role does not exist"),
        ("refused", "nothing answers at the store's address"),
        ("resolve", "the name of the store's host is unknown"),
        ("timeout", "the store did not answer in time"),
        ("missing", "the store's address cannot be read"),
        ("invalid", "the store's address cannot be read"),
    ):
        if sign in words:
            return cause
    return "the store cannot be reached"
