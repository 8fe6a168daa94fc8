"""Texts that stand in one SQL text for two engines."""

import datetime as dt

import pytest

from replview.spark.quoting import date, shared_literal, timestamp

TEXTS = ("", "it's", "back\\slash\\n", "${spark.app.name}", "{rows}", '"`', "é\n--", "100%")


@pytest.mark.slow
def test_both_engines_read_the_same_text(engine) -> None:
    rows = engine.sql("SELECT 1 AS one")
    chosen = ", ".join(map(shared_literal, TEXTS))
    [found] = engine.sql(f"SELECT {chosen} FROM {{rows}}", rows=rows).collect()
    assert tuple(found) == TEXTS


@pytest.mark.slow
def test_both_engines_read_the_same_time(engine) -> None:
    moment = dt.datetime(2026, 11, 20, 23, 50, 0, 7, dt.timezone(dt.timedelta(hours=-2)))
    rows = engine.sql("SELECT 1 AS one")
    text = f"SELECT unix_micros({timestamp(moment)}), {date(moment)} FROM {{rows}}"
    [found] = engine.sql(text, rows=rows).collect()
    micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    assert tuple(found) == (micros, dt.date(2026, 11, 21))
