"""Where a page of a row's history ended, as a word for an address."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import orjson

from replview.store.read.key_hash import signed_hash
from replview.store.read.row_history.backward_scan import BackwardScan
from replview.store.read.row_history.key_chain import KeyChain
from replview.store.read.row_history.sought_row import END, At
from replview.store.read.rows import OPEN_END, Step

#: Characters; a longer one is none of ours.
_LONGEST = 20_000


class CursorError(ValueError):
    """What was given as a cursor is none, or none of this row."""


def cursor_text(scan: BackwardScan, step: Step, chains: Sequence[KeyChain]) -> str:
    """Where the next page begins, and under which former keys."""
    more = [[s.relation_id, s.key, s.life.number, *_raw(s, step), s.below] for s in chains]
    raw = [step.lsn if step.op != "S" else step.place[0], step.seq if step.op != "S" else 0]
    document = orjson.dumps([scan.at(step), raw, more])
    return base64.urlsafe_b64encode(document).decode().rstrip("=")


def _raw(chain: KeyChain, step: Step) -> tuple[int, int]:
    """A chain in hand was read further than it was shown: begin at the change shown last."""
    if chain.life.id == step.incarnation_id and chain.below is not None:
        place = min((step.place[2], step.place[3]), (chain.below[3], chain.below[4]))
        return place if step.op != "S" else (min(step.place[0], chain.below[3]), 1 << 30)
    return chain.lsn, chain.seq


def parse_cursor(
    cursor: str | None, scan: BackwardScan
) -> tuple[At, tuple[int, int] | None, list[KeyChain]]:
    """What a cursor says; without one, the newest change. Raises ``CursorError``."""
    if not cursor:
        return END, None, []
    if len(cursor) > _LONGEST:
        raise CursorError("too long for a cursor")
    lives = {life.number: life for life in scan.incarnations}
    try:
        document = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        at, raw, more = document
        chains = []
        for relation_id, key, number, lsn, seq, below in more:
            chain = KeyChain(
                int(relation_id), tuple(key), signed_hash(key), lives[number], int(lsn), int(seq)
            )
            chain.below, chain.one_row = _place(below), True
            chains.append(chain)
        return _place(at), (_number(raw[0]), int(raw[1]) % (1 << 31)), chains
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, binascii.Error):
        raise CursorError("not understood as a cursor") from None


def _place(values: Any) -> At:
    life, commit, real, lsn, seq = (_number(value) for value in values)
    return life, commit, real, lsn, seq


def _number(value: Any) -> int:
    number = int(value)
    if not 0 <= number <= OPEN_END:
        raise ValueError("not a place")
    return number
