"""Changes over time as the points of a small SVG; what is not known is hatched, not zero."""

from replview.store.sums.relation_sums import Rates
from replview.ui.charts.sparkline import Sparkline

WIDTH, HEIGHT, PAD = 120, 24, 2


def rate_sparkline(rates: Rates, relation_id: int) -> Sparkline | None:
    """A line over the whole time; None where nothing changed in it."""
    values = rates.by_relation.get(relation_id) or []
    if not any(values):
        return None
    step = WIDTH / max(rates.buckets - 1, 1)
    first = 0
    if rates.known_from is not None and rates.known_from > rates.since:
        known = (rates.known_from - rates.since).total_seconds() / rates.bucket_seconds
        first = min(int(known), rates.buckets - 1)
    # What was stored all the same is drawn.
    first = min(first, next(n for n, value in enumerate(values) if value))
    peak = max(values)
    points = [
        (round(n * step, 1), round(HEIGHT - 1 - (HEIGHT - 2 * PAD) * values[n] / peak, 1))
        for n in range(first, rates.buckets)
    ]
    line = " ".join(f"{x},{y}" for x, y in points)
    return Sparkline(
        lines=(line,),
        areas=(f"{line} {points[-1][0]},{HEIGHT - 1} {points[0][0]},{HEIGHT - 1}",),
        unknown=((0, points[0][0]),) if first else (),
        width=WIDTH,
        height=HEIGHT,
    )
