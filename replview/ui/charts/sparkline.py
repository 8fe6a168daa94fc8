"""Compute small SVG lines of retained WAL or changes over time; gaps are hatched, not zero."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from replview.store.sums.relation_sums import RelationRates

WIDTH, HEIGHT, PAD = 168, 32, 3
#: The least value of the full height, so that little WAL looks little.
SMALL_BYTES = 256 << 20
_RATE_WIDTH, _RATE_HEIGHT, _RATE_PAD = 120, 24, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """Coordinates in a box of ``width`` by ``height``."""

    #: The points of a line and its area, for each run of known buckets.
    lines: tuple[str, ...] = ()
    areas: tuple[str, ...] = ()
    #: ``(x, width)`` of each unknown range since the first sample.
    unknown: tuple[tuple[float, float], ...] = ()
    #: The newest point, where the current value is known.
    dot: tuple[float, float] | None = None
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(points: Mapping[int, int], buckets: int, *, present_known: bool) -> Sparkline:
    """Draw ``{bucket: bytes}``. A single missing bucket is normal for sampling, two are a gap."""
    if not points:
        return Sparkline()
    peak = max(*points.values(), SMALL_BYTES)
    step = (WIDTH - PAD) / max(buckets - 1, 1)

    def place(bucket: int) -> tuple[float, float]:
        x, y = bucket * step, HEIGHT - (HEIGHT - 2 * PAD) * points[bucket] / peak - 1
        return round(x, 1), round(y, 1)

    sampled = sorted(points)
    runs: list[list[int]] = [[sampled[0]]]
    unknown: list[tuple[float, float]] = []
    for before, bucket in pairwise(sampled):
        if bucket - before > 2:
            unknown.append(_span(before, bucket, step))
            runs.append([])
        runs[-1].append(bucket)
    if not present_known and sampled[-1] < buckets - 1:
        unknown.append(_span(sampled[-1], buckets - 1, step))

    points_of_runs = [[place(bucket) for bucket in run] for run in runs]
    return Sparkline(
        lines=tuple(_line(run) for run in points_of_runs),
        areas=tuple(
            f"{_line(run)} {run[-1][0]},{HEIGHT - 1} {run[0][0]},{HEIGHT - 1}"
            for run in points_of_runs
        ),
        unknown=tuple(unknown),
        dot=points_of_runs[-1][-1] if present_known else None,
    )


def _span(first: int, last: int, step: float) -> tuple[float, float]:
    return round(first * step, 1), round((last - first) * step, 1)


def _line(run: list[tuple[float, float]]) -> str:
    if len(run) == 1:
        # Make a lone point as wide as the line's stroke, so that it is visible.
        (x, y), *_ = run
        run = [(x, y), (x + 1, y)]
    return " ".join(f"{x},{y}" for x, y in run)


def rate_sparkline(rates: RelationRates, relation_id: int) -> Sparkline | None:
    """Return a line over the whole time; None where the table did not change in it."""
    values = rates.by_relation.get(relation_id) or []
    if not any(values):
        return None
    step = _RATE_WIDTH / max(rates.buckets - 1, 1)
    first = 0
    if rates.known_from is not None and rates.known_from > rates.since:
        known_bucket = (rates.known_from - rates.since).total_seconds() / rates.bucket_seconds
        first = min(int(known_bucket), rates.buckets - 1)
    # Draw stored changes even from before the known time.
    first = min(first, next(n for n, value in enumerate(values) if value))
    peak = max(values)
    height = _RATE_HEIGHT - 2 * _RATE_PAD
    points = [
        (round(n * step, 1), round(_RATE_HEIGHT - 1 - height * values[n] / peak, 1))
        for n in range(first, rates.buckets)
    ]
    line = " ".join(f"{x},{y}" for x, y in points)
    return Sparkline(
        lines=(line,),
        areas=(f"{line} {points[-1][0]},{_RATE_HEIGHT - 1} {points[0][0]},{_RATE_HEIGHT - 1}",),
        unknown=((0, points[0][0]),) if first else (),
        width=_RATE_WIDTH,
        height=_RATE_HEIGHT,
    )
