"""LSNs and PostgreSQL's time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder.replication import StandbyStatusUpdate, decode_frame
from decoder.scalars import (
    INFINITY_US,
    LSN,
    datetime_from_us,
    lsn_from_text,
    lsn_text,
    us_from_datetime,
)


@given(position=st.integers(0, 2**64 - 1))
def test_an_lsn_reads_back_as_written(position: int) -> None:
    assert LSN.parse(str(LSN(position))) == position


def test_an_lsn_is_written_as_postgresql_writes_it() -> None:
    lsn = LSN.parse("0/1b2c3d8")

    assert f"{lsn} {lsn!r} {lsn:d}" == "0/1B2C3D8 LSN('0/1B2C3D8') 28492760"


@pytest.mark.parametrize(
    "text", ["", "0", "/", "0/", "0/G", "0/123456789", "-1/0", "0/ 1", "0/1_0"]
)
def test_what_is_no_lsn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an LSN"):
        LSN.parse(text)


def test_no_position_stays_none() -> None:
    assert lsn_from_text(None) is None
    assert lsn_text(None) is None
    assert lsn_text(lsn_from_text("0/0")) == "0/0"


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_times_read_back(moment: datetime) -> None:
    assert datetime_from_us(us_from_datetime(moment)) == moment


@pytest.mark.parametrize("time_us", [INFINITY_US, -(2**63), 10**18, -(10**17)])
def test_times_beyond_python_are_unknown(time_us: int) -> None:
    assert datetime_from_us(time_us) is None


@given(
    positions=st.tuples(*[st.integers(0, 2**64 - 1)] * 3),
    clock_us=st.integers(-(2**63), 2**63 - 1),
    reply=st.booleans(),
)
def test_a_status_update_reads_back(
    positions: tuple[int, int, int], clock_us: int, reply: bool
) -> None:
    written, flushed, applied = map(LSN, positions)
    update = StandbyStatusUpdate(
        written=written, flushed=flushed, applied=applied, clock_us=clock_us, reply_requested=reply
    )

    assert decode_frame(update.encode()) == update
