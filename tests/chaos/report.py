"""Reports a run: a line for each seed, and a table at the end."""

from collections import defaultdict
from collections.abc import Sequence

from tests.chaos.seed_run import Outcome

_SHOWN = 12
#: The kinds of findings that count against each limit.
_COUNTED = {
    "lost": ("lost",),
    "doubled": ("doubled", "invented"),
    "misordered": ("misordered", "order"),
    "mismatched": ("mismatched", "rows", "ledger"),
    "other": ("state", "stuck", "disturbed", "slow", "unsaid", "broken"),
}


def line(outcome: Outcome) -> str:
    """One seed, with its findings and how to repeat it where there are any."""
    combination, verdict = outcome.combination, outcome.verdict
    where = f"PostgreSQL {combination.version}, {combination.interface}, "
    where += "Celery" if combination.celery else "bare receivers"
    said = (
        f"seed {combination.seed} ({where}): {outcome.hits} faults hit, "
        f"{verdict.transactions:,} transactions, {verdict.changes:,} changes, "
        f"{outcome.seconds:.0f} s: {'ok' if outcome.ok else 'FAILED'}"
    )
    if outcome.ok:
        return said
    lines = [said]
    if outcome.hits < combination.hits:
        lines.append(f"  only {outcome.hits} of {combination.hits} faults hit")
    lines += [f"  {finding}" for finding in verdict.findings[:_SHOWN]]
    if len(verdict.findings) > _SHOWN:
        lines.append(f"  … {len(verdict.findings)} findings: {dict(verdict.kinds)}")
    lines.append(f"  evidence: {outcome.kept}")
    lines.append(f"  again: python -m tests.chaos {combination.arguments}")
    return "\n".join(lines)


def summary(outcomes: Sequence[Outcome]) -> str:
    """All seeds against the bars, and how long each fault took to be over."""
    rows = [f"{len(outcomes)} seeds, {sum(outcome.ok for outcome in outcomes)} ok"]
    for name, kinds in _COUNTED.items():
        count = sum(outcome.verdict.kinds[kind] for outcome in outcomes for kind in kinds)
        rows.append(f"  {name:12} {count}")
    taken: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        for strike in outcome.strikes:
            if strike.hit and not strike.note:
                taken[strike.fault].append(strike.recovery_seconds)
    rows.append("live again after, in seconds (times, median, longest):")
    for fault, seconds in sorted(taken.items()):
        seconds.sort()
        median = seconds[len(seconds) // 2]
        rows.append(f"  {fault:26} {len(seconds):4} {median:6.1f} {seconds[-1]:6.1f}")
    return "\n".join(rows)
