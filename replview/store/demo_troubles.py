"""The demo's troubles: their requests, and the reports of the process that makes them.

A page or a command writes the request; the process carries it out and reports its progress. Each
trouble has two rows in ``setting``, each with one writer. Outside a demo nobody writes or reads
them.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.utils import timezone

from replview.store.models import Setting

#: Names in the order in which pages show them.
NAMES = (
    "paused-receiver", "prepared-transaction", "long-transaction", "flood", "idle-slot",
    "lost-slot", "schema-change", "poison-change",
)  # fmt: skip
#: Seconds without a report after which the process does not run.
SILENT_SECONDS = 8.0

_REQUEST, _STATE, _MAKER = "trouble.{}", "trouble.{}.state", "trouble.maker"


class TroubleState(StrEnum):
    """The state of a trouble."""

    OFF = "off"
    #: Requested, and not there yet.
    COMING = "coming"
    ON = "on"
    #: Requested to end, and not gone yet.
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A trouble's request, and the last report of the process that makes it."""

    name: str
    wanted: bool = False
    #: Author and time of the last request.
    by: str = ""
    asked_at: dt.datetime | None = None
    state: TroubleState = TroubleState.OFF
    since: dt.datetime | None = None
    #: Time at which it ends by itself; None: it is off.
    ends_at: dt.datetime | None = None
    #: Sentence why it could not be made, or ended by itself; empty: nothing to report.
    note: str = ""

    @property
    def can_start(self) -> bool:
        """Return whether the trouble can be requested: it is off, and not requested."""
        return self.state == TroubleState.OFF and not self.wanted


def request(name: str, wanted: bool, by: str) -> None:
    """Request a trouble, or its end. Raises ``ValueError`` for an unknown name."""
    if name not in NAMES:
        raise ValueError(f"no such trouble: {name}")
    now = timezone.now()
    _write(_REQUEST.format(name), {"wanted": wanted, "at": now.isoformat()}, by, now)


def wanted() -> set[str]:
    """Return the names of the requested troubles."""
    rows = Setting.objects.filter(name__in=[_REQUEST.format(name) for name in NAMES])
    return {row.name.removeprefix("trouble.") for row in rows if row.value.get("wanted") is True}


def report_state(
    name: str, state: TroubleState, *, ends_at: dt.datetime | None = None, note: str = ""
) -> None:
    """Report the state of a trouble, on behalf of the process that makes it; ``since`` is now."""
    now = timezone.now()
    value = {
        "state": state.value,
        "since": now.isoformat(),
        "ends_at": None if ends_at is None else ends_at.isoformat(),
        "note": note,
    }
    _write(_STATE.format(name), value, "", now)


def report_alive() -> None:
    """Report that the process that makes troubles runs."""
    _write(_MAKER, {}, "", timezone.now())


def maker_is_alive() -> bool:
    """Return whether the process that makes troubles has reported lately."""
    row = Setting.objects.filter(name=_MAKER).first()
    return row is not None and (timezone.now() - row.changed_at).total_seconds() < SILENT_SECONDS


def read() -> list[Reported]:
    """Return the reports of all troubles, in the order of ``NAMES``."""
    rows = {row.name: row for row in Setting.objects.filter(name__startswith="trouble.")}
    return [_reported(name, rows) for name in NAMES]


def _reported(name: str, rows: Mapping[str, Setting]) -> Reported:
    request_row, state_row = rows.get(_REQUEST.format(name)), rows.get(_STATE.format(name))
    state: dict[str, Any] = state_row.value if state_row else {}
    return Reported(
        name=name,
        wanted=bool(request_row and request_row.value.get("wanted")),
        by=request_row.changed_by if request_row else "",
        asked_at=_moment(request_row.value.get("at")) if request_row else None,
        state=TroubleState(state.get("state", TroubleState.OFF)),
        since=_moment(state.get("since")),
        ends_at=_moment(state.get("ends_at")),
        note=state.get("note", ""),
    )


def _moment(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text) if text else None


def _write(name: str, value: dict[str, Any], changed_by: str, now: dt.datetime) -> None:
    Setting.objects.update_or_create(
        name=name, defaults={"value": value, "changed_at": now, "changed_by": changed_by}
    )
