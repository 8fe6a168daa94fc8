"""Run erasures: count first and, once confirmed, erase, by one worker at a time.

Another worker continues what a stopping worker leaves; all steps can be repeated. While files of
the archive are rewritten, nothing is archived.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

from replview.features.erasure import queue as erasing
from replview.features.erasure.queue import Unerasable
from replview.features.erasure.run import Act, ErasureStopped
from replview.jobs.rows import beating
from replview.store.connecting import connect_store
from replview.store.models import Erasure
from replview.store.retention import archive
from replview.store.secrets import SecretKeyChanged
from replview.store.write.access_record import note

_RETRIED = "It is retried automatically"
_CONTINUES = "It continues automatically when that has ended"
_BEAT_SECONDS = 5.0
#: Seconds to wait until the archive is no longer being written.
PATIENCE_SECONDS = 60.0


def carry_out(row: Erasure, stop: threading.Event) -> None:
    """Count or erase, as far as that is possible now."""
    lost = threading.Event()

    def beat() -> None:
        if not erasing.rows.beat(row):
            lost.set()

    def check() -> None:
        if stop.is_set() or lost.is_set():
            raise ErasureStopped

    looks = row.state == Erasure.State.LOOKING
    # A file may take a minute.
    with beating(beat, _BEAT_SECONDS):
        try:
            act = Act.of(row, check)
            act.follow()
            if looks:
                erasing.looked(row, found=act.look(), roots=list(act.roots.values()))
            else:
                _erase(act)
        except (Unerasable, SecretKeyChanged) as error:
            (erasing.refuse if looks else erasing.stay_unfinished)(row, error.cause, error.remedy)
        except ErasureStopped:
            erasing.give_back(row)


def _erase(act: Act) -> None:
    erased = _added(act.row.erased, act.erase_store())
    erasing.rows.beat(act.row, erased=erased)
    left = _erase_files(act)
    act.beside.erase_results()
    act.clear_texts()
    act.vacuum(erased["days"])
    if left is None and (still := act.count_again()):
        left = f"after the erasure, {still} still contain values to erase", _RETRIED
    if left is not None:
        erasing.stay_unfinished(act.row, *left, roots=list(act.roots.values()))
        return
    if erasing.finish(act.row, roots=list(act.roots.values())):
        facts = {"finished": True, "changes": erased["changes"], "tables": act.row.tables}
        note("erased", user=act.row.confirmed_by, subject=f"erasure {act.row.pk}",
             source_id=act.slot.source_id, details=facts)  # fmt: skip
        # Old row versions still hold the sealed plan.
        with connect_store("replview erase") as session:
            session.execute("VACUUM erasure")


def _erase_files(act: Act) -> tuple[str, str] | None:
    """Return what is left in files, and the remedy; None when nothing is left."""
    if reading := act.wait_for_readers():
        return f"{reading} is still running", _CONTINUES
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        with archive.alone() as mine:
            if mine:
                left = act.erase_roots()
                break
        act.check()
        if time.monotonic() > until:
            return "the archive is still being written", _CONTINUES
        time.sleep(1.0)
    if not left:
        return None
    names = ", ".join(f"{told['what']} ({told['problem']})" for told in left)
    return f"not reached: {names}", f"{_RETRIED}; or leave them out"


def _added(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums over all tries."""
    found = dict(now)
    for name in ("changes", "large_values", "transactions"):
        found[name] = int(before.get(name, 0)) + int(now.get(name, 0))
    found["days"] = sorted({*before.get("days", []), *now.get("days", [])})
    for name in ("tables", "beside"):
        one, other = before.get(name) or {}, now.get(name) or {}
        found[name] = {key: one.get(key, 0) + other.get(key, 0) for key in sorted({*one, *other})}
    return found


#: Another worker continues a lost worker's erasure, since all steps can be repeated. ``private``:
#: errors may hold values.
KIND = erasing.rows.served(
    name="erasing",
    claim=erasing.claim,
    run=carry_out,
    recover=erasing.forget_unconfirmed,
    private=True,
)
