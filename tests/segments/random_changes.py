"""Random changes as a store may hold them, in every form of a value."""

import json

import orjson
from hypothesis import strategies as st

from replview.segments.layout import SegmentChange
from replview.store.read.rows import signed_hash

#: Values that repeat, so that selections find several.
FEW = st.integers(1, 4)
#: Hashes of keys, which differ in all their bits, and the least and the greatest.
HASHES = (FEW | st.integers()).map(lambda n: signed_hash([str(n)])) | st.sampled_from(
    [-(1 << 63), (1 << 63) - 1]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_MARKS = st.sampled_from(
    [
        {"$masked": True},
        {"$aside": 268_435_456},
        {"$too_large": 700 << 20, "$sha256": "0" * 64},
        {"$binary": "AP8=", "$type": 1033},
        {"$bytes": "/w==", "$type": 25},
        {"$erased": True, "$on": "2026-11-28"},
    ]
)
_ROWS = st.dictionaries(TEXTS, st.none() | TEXTS | _MARKS, max_size=4)
_TRUNCATIONS = st.fixed_dictionaries({"cascade": st.booleans(), "restart_identity": st.booleans()})
_MESSAGES = st.fixed_dictionaries(
    {"prefix": TEXTS, "content": TEXTS, "transactional": st.booleans()}
)


@st.composite
def images(draw: st.DrawFn, documents: st.SearchStrategy[dict]) -> str:
    """A document as the receiver writes it, or as PostgreSQL prints it."""
    document = draw(documents)
    if draw(st.booleans()):
        return orjson.dumps(document).decode()
    return json.dumps(document, ensure_ascii=False)


@st.composite
def changes(draw: st.DrawFn) -> list[SegmentChange]:
    """Changes of some transactions in the order of a segment; some have no place in history."""
    rows = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        commit_seq = draw(st.sampled_from([number, number + 1_000_000_000_000, None]))
        identifier = draw(st.sampled_from([number, number + (494_400 << 32)]))
        for seq in range(1, draw(st.integers(1, 6)) + 1):
            rows.append(draw(_change(commit_seq, identifier, seq)))
    return rows


@st.composite
def _change(
    draw: st.DrawFn, commit_seq: int | None, transaction_id: int, seq: int
) -> SegmentChange:
    op = draw(st.sampled_from("IUDTMS"))
    document = {"T": _TRUNCATIONS, "M": _MESSAGES}.get(op, _ROWS)
    old_kind = draw(st.sampled_from([None, "K", "O"])) if op in "UD" else None
    has_key = op in "IUDS" and draw(st.booleans())
    return SegmentChange(
        commit_seq=commit_seq,
        transaction_id=transaction_id,
        seq=seq,
        lsn=draw(st.integers(0, (1 << 64) - 1)),
        subxid=draw(st.none() | st.integers(3, (1 << 32) - 1)),
        relation_id=None if op == "M" else draw(FEW),
        version_id=None if op == "M" else draw(FEW),
        op=op,
        old_kind=old_kind,
        key_hash=draw(HASHES) if has_key else None,
        old_key_hash=draw(HASHES) if has_key and op == "U" and draw(st.booleans()) else None,
        old=draw(images(_ROWS)) if old_kind else None,
        new=None if op == "D" else draw(images(document)),
    )
