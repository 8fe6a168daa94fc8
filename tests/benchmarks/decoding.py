"""The decoder alone against the walsender: how often faster than what feeds it."""

from tests.benchmarks import decode_only
from tests.benchmarks.bench_servers import bench
from tests.benchmarks.pairs import Pairs, in_turn
from tests.benchmarks.report import Result

ROWS_PER_TRANSACTION = 100
PAIRS = 3


def decoder_alone(*, quick: bool) -> list[Result]:
    """Messages to assembled changes, in one thread's CPU time."""
    rows = 200_000 if quick else 600_000
    found = []
    with bench() as servers:
        for number in range(PAIRS):
            slot = f"theirs_{number}"
            with servers.slots(slot):
                end_lsn = servers.load(rows, ROWS_PER_TRANSACTION)
                found.append(
                    in_turn(
                        number,
                        lambda: decode_only.measure(rounds=5),
                        lambda slot=slot, end=end_lsn: (
                            rows / servers.recvlogical_seconds(slot, end)
                        ),
                    )
                )
    pairs = Pairs([pair[0] for pair in found], [pair[1] for pair in found])
    detail = f"{pairs.our_median:,.0f} of {pairs.their_median:,.0f} changes/s; pairs {pairs.each}"
    return [Result.at_least("decode / walsender", pairs.ratio, 3.0, detail=detail)]
