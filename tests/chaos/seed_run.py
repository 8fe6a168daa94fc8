"""One seed: servers up, the workload running, faults one after another, quiet, the verdict."""

import random
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from django.db import connections

from replview.store.models import Slot, Source
from tests.chaos import faults as faults_module
from tests.chaos.check import Finding, Verdict, check
from tests.chaos.fleet import Fleet
from tests.chaos.proxy import Proxies
from tests.chaos.quiet import caught_up, end_prepared, evidence
from tests.chaos.scene import NEW_SESSION, Fault, Scene
from tests.chaos.servers import PUBLICATION, SLOT, WITNESS, Servers, servers
from tests.chaos.sessions import Workload
from tests.chaos.tables import schema
from tests.chaos.visibility import Stuck, Visibility

#: A seed whose faults keep missing the receiver ends all the same.
_MOST_STRIKES = 3


@dataclass(frozen=True, slots=True)
class Combination:
    """A seed, and the server version, interface and workers it runs with."""

    seed: int
    version: int
    interface: str
    celery: bool
    hits: int
    #: The workload runs at least this long.
    seconds: float

    @property
    def arguments(self) -> str:
        """Return the command-line options that repeat the run."""
        return (
            f"--seed {self.seed} --version {self.version} --interface {self.interface} "
            f"--workers {'celery' if self.celery else 'bare'} --hits {self.hits} "
            f"--seconds {self.seconds:g}"
        )


@dataclass(slots=True)
class Strike:
    """A fault that was tried."""

    fault: str
    #: A receiver was seen live before it, and it did to it what such a fault does.
    hit: bool
    #: From the harm (or its end) until live again.
    recovery_seconds: float
    note: str = ""


@dataclass(slots=True)
class Outcome:
    """The faults, verdict and duration of one seed's run."""

    combination: Combination
    strikes: list[Strike] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict([]))
    seconds: float = 0.0
    #: The folder with the evidence of a failure.
    kept: Path | None = None

    @property
    def hits(self) -> int:
        """Faults that broke the session of a live receiver."""
        return sum(strike.hit and not strike.note for strike in self.strikes)

    @property
    def ok(self) -> bool:
        """Nothing found, and enough happened."""
        return not self.verdict.findings and self.hits >= self.combination.hits


def run_seed(combination: Combination, say: Callable[[str], None]) -> Outcome:
    """Run one seed; everything it started is gone afterwards."""
    outcome = Outcome(combination)
    began = time.monotonic()
    with servers(combination.version) as made, Proxies() as proxies:
        slot_id = _make_slot(made, combination)
        with Fleet(made, proxies, slot_id=slot_id, celery=combination.celery) as fleet:
            findings = _run(made, fleet, slot_id, outcome, say)
        connections.close_all()  # the store was restarted meanwhile
        if not findings:
            with made.on_source() as source:
                outcome.verdict = check(
                    source,
                    Slot.objects.get(pk=slot_id),
                    witness_slot=WITNESS,
                    publication=PUBLICATION,
                )
        outcome.verdict.findings += findings
        if not outcome.ok:
            outcome.kept = Path(tempfile.mkdtemp(prefix=f"replview-chaos-seed-{combination.seed}-"))
            evidence(made, outcome.verdict, outcome.kept)
        connections.close_all()
    outcome.seconds = time.monotonic() - began
    return outcome


def _make_slot(made: Servers, combination: Combination) -> int:
    """The tables, both slots, and the slot's row in the store."""
    with made.on_source() as source:
        for statement in schema(PUBLICATION, combination.version):
            source.execute(statement)
        two_phase = ", true" if combination.version >= 14 else ""
        create = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false{})"
        source.execute(create.format(two_phase), [SLOT])
        source.execute(create.format(""), [WITNESS])
    owner = Source.objects.create(name="chaos", conninfo="env:CHAOS_SOURCE")
    slot = Slot.objects.create(
        source=owner, name=SLOT, publications=[PUBLICATION], interface=combination.interface
    )
    return int(slot.pk)


def _run(
    made: Servers, fleet: Fleet, slot_id: int, outcome: Outcome, say: Callable[[str], None]
) -> list[Finding]:
    """Workload, faults, quiet; what went wrong other than in the record."""
    combination = outcome.combination
    visibility = Visibility(made.on_store, slot_id)
    workload = Workload(made.on_source, combination.seed)
    fleet.start()
    workload.start()
    began = time.monotonic()
    findings: list[Finding] = []
    try:
        findings += _strike_all(made, fleet, visibility, outcome, say)
        while time.monotonic() - began < combination.seconds:
            time.sleep(0.2)
        workload.stop()
        with made.on_source() as source:
            end_prepared(source, random.Random(combination.seed))
        caught_up(made, visibility, slot_id)
    except Stuck as stuck:
        findings.append(Finding("stuck", str(stuck)))
    except Exception:
        findings.append(Finding("broken", traceback.format_exc()))
    finally:
        workload.ended.set()
        visibility.close()
    return findings


def _strike_all(
    made: Servers,
    fleet: Fleet,
    visibility: Visibility,
    outcome: Outcome,
    say: Callable[[str], None],
) -> list[Finding]:
    combination = outcome.combination
    rng = random.Random(f"{combination.seed}/faults")
    drawn = faults_module.draw(rng, hits=combination.hits, celery=combination.celery)
    findings = []
    for fault in drawn:
        for _ in range(_MOST_STRIKES):
            for ended in fleet.ended_by_themselves():
                raise Stuck(f"a receiver ended by itself: {ended}")
            scene = Scene(made, fleet, visibility, rng, visibility.live())
            time.sleep(rng.uniform(0.0, 1.5))
            try:
                strike = _strike(fault, scene, findings)
            except Stuck as stuck:
                raise Stuck(f"after {fault.name}: {stuck}") from None
            outcome.strikes.append(strike)
            say(f"    {strike.fault}: {_told(strike)}")
            if strike.hit:
                break
    return findings


def _told(strike: Strike) -> str:
    if not strike.hit:
        return f"missed ({strike.note})"
    return strike.note or f"live again after {strike.recovery_seconds:.1f} s"


def _strike(fault: Fault, scene: Scene, findings: list[Finding]) -> Strike:
    """Strike a live receiver once, and wait until one is live again."""
    look = scene.visibility.look()
    if look is None or not look.is_live or not look.same_session(scene.before):
        return Strike(fault.name, hit=False, recovery_seconds=0.0, note="nobody was live")
    scene.before = look
    harm = fault.strike(scene)
    if fault.shows != NEW_SESSION:
        after = scene.visibility.live()
        if not after.same_session(look):
            findings.append(Finding("disturbed", f"{fault.name} ended the session"))
        return Strike(fault.name, hit=True, recovery_seconds=0.0, note="undisturbed")
    after = scene.visibility.live_again(look)
    seconds = time.monotonic() - harm
    if after.last_event == look.last_event:
        findings.append(Finding("unsaid", f"{fault.name}: the slot's log says nothing of it"))
    if fault.bar_seconds is not None and seconds > fault.bar_seconds:
        text = f"{fault.name}: live again after {seconds:.1f} s, not {fault.bar_seconds:.0f}"
        findings.append(Finding("slow", text))
    return Strike(fault.name, hit=True, recovery_seconds=seconds)
