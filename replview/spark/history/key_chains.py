"""Join the keys between which rows moved into chains: the changes of a row are those of its chain.

Without a move a key is a chain of its own.
"""

from collections.abc import Iterable

import pyarrow as pa

#: Columns of a move: hashes of the row's key before and after.
MOVES = pa.schema([("before", pa.int64()), ("after", pa.int64())])
#: Columns of a key that is in a chain with others.
CHAINS = pa.schema([("key", pa.int64()), ("chain", pa.int64())])


def chains_of(moves: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return for each key of a move the key that stands for its chain."""
    parents: dict[int, int] = {}

    def root(key: int) -> int:
        while (parent := parents.setdefault(key, key)) != key:
            # Halve the path, so that long chains are walked once.
            parents[key] = key = parents[parent]
        return key

    for before, after in moves:
        parents[root(before)] = root(after)
    return {key: root(key) for key in parents}


def chain_table(moves: pa.Table) -> pa.Table:
    """Return the ``CHAINS`` of ``MOVES``."""
    pairs = zip(*(moves[name].to_pylist() for name in MOVES.names), strict=True)
    found = chains_of(pairs)
    return pa.table([[*found], [*found.values()]], schema=CHAINS)
