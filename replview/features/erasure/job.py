"""Serving erasures: looked at, and once confirmed carried out, by one worker at a time.

What a worker that is told to stop leaves another goes on with: all steps may be done twice. While
files of the archive are written anew, nothing goes to it.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

from django.db import OperationalError, connection

from replview.features.erasure import queue as erasing
from replview.features.erasure.request import Unerasable
from replview.features.erasure.run import Act, Stopped
from replview.jobs.rows import Claim
from replview.jobs.running import Kind, register
from replview.store.connecting import connect_store, orm_connection
from replview.store.models import Erasure
from replview.store.retention import archive
from replview.store.secrets import SecretKeyChanged
from replview.store.write.access_record import note

_BEAT_SECONDS = 5.0
#: How long an archive that is just being written to is waited for.
PATIENCE_SECONDS = 60.0


def carry_out(claim: Claim, stop: threading.Event) -> None:
    """Look, or erase, as far as it can be done now."""
    row = Erasure.objects.select_related("slot__source").get(pk=claim.job_id)
    beating = _Beating(claim)

    def check() -> None:
        if stop.is_set() or beating.lost:
            raise Stopped

    with beating:
        try:
            act = Act.of(row, claim, check)
            if row.state == Erasure.State.LOOKING:
                _look(act)
            else:
                _erase(act)
        except (Unerasable, SecretKeyChanged) as error:
            if row.state == Erasure.State.LOOKING:
                erasing.refuse(claim, error.cause, error.remedy)
            else:
                erasing.stay_unfinished(claim, error.cause, error.remedy)
        except Stopped:
            _give_back(claim)


def _look(act: Act) -> None:
    act.follow()
    found = act.look()
    erasing.looked(act.claim, found=found, roots=list(act.roots.values()))


def _erase(act: Act) -> None:
    act.follow()
    erased = _added(act.row.erased, act.erase_store())
    erasing.beat(act.claim, erased=erased)
    left = _erase_files(act)
    act.beside.erase_results()
    act.clear_texts()
    act.vacuum(erased["days"])
    if left is not None:
        erasing.stay_unfinished(act.claim, *left, roots=list(act.roots.values()))
        return
    if erasing.finish(act.claim, roots=list(act.roots.values())):
        note(
            "erased",
            user=act.row.confirmed_by,
            subject=f"erasure {act.row.pk}",
            source_id=act.slot.source_id,
            details={"finished": True, "changes": erased["changes"], "tables": act.row.tables},
        )
        # Former versions of this row hold the sealed plan.
        with connect_store("replview erase") as session:
            session.execute("VACUUM erasure")


def _erase_files(act: Act) -> tuple[str, str] | None:
    """What is left of the files, and what to do about it; None: nothing is."""
    if reading := act.wait_for_readers():
        return f"{reading} is still under way", "It goes on by itself when that has ended"
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        with archive.alone() as mine:
            if mine:
                left = act.erase_roots()
                break
        act.check()
        if time.monotonic() > until:
            return "the archive is still being written", "It goes on by itself when that has ended"
        time.sleep(1.0)
    if not left:
        return None
    names = ", ".join(f"{told['what']} ({told['problem']})" for told in left)
    return f"not reached: {names}", "It is tried again by itself; or leave that out"


def _added(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What all tries together did."""
    found = dict(now)
    for name in ("changes", "large_values", "transactions"):
        found[name] = int(before.get(name, 0)) + int(now.get(name, 0))
    found["days"] = sorted({*before.get("days", []), *now.get("days", [])})
    for name in ("tables", "beside"):
        one, other = before.get(name) or {}, now.get(name) or {}
        found[name] = {key: one.get(key, 0) + other.get(key, 0) for key in sorted({*one, *other})}
    return found


def _give_back(claim: Claim) -> None:
    """Another goes on at once."""
    mine = Erasure.objects.filter(pk=claim.job_id, started_at=claim.started_at)
    mine.filter(state=Erasure.State.RUNNING).update(state=Erasure.State.WAITING, step="")
    mine.filter(state=Erasure.State.LOOKING).update(heartbeat_at=None, step="")


class _Beating:
    """A sign of life every few seconds, from a thread of its own: a file may take a minute."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._over = threading.Event()
        self.lost = False
        self._thread = threading.Thread(target=self._beat, name="erasing-beat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_BEAT_SECONDS)

    def _beat(self) -> None:
        with orm_connection():
            while not self._over.wait(_BEAT_SECONDS):
                try:
                    self.lost = not erasing.beat(self._claim)
                except OperationalError:
                    connection.close()


def _waits() -> bool:
    erasing.forget_unconfirmed()
    return erasing.anything_waits()


#: A lost worker's erasure is gone on with: all of its steps may be done twice. What its errors say
#: may hold values.
KIND = register(
    Kind(
        name="erasing",
        task=erasing.TASK,
        waits=_waits,
        claim=erasing.claim,
        run=carry_out,
        private=True,
    )
)
