"""What of a life's transactions is not exported, as the manifests tell."""

from collections.abc import Iterator

from replview.parquet.slices import Slice
from replview.spark.history.datasets import Dataset, Life


def deleted(life: Life, after: int, last: int) -> int:
    """How many transactions ``after < commit_seq <= last`` the store had no more when asked."""
    gaps = [gap for told in life.manifests for gap in told.get("gaps", [])]
    return sum(
        max(0, min(gap["through_seq"], last) - max(gap["after_seq"], after))
        for gap in gaps
        if gap["kind"] == "deleted"
    )


def holes(life: Life, after: int, last: int, *, dataset: Dataset | None = None) -> Iterator[str]:
    """What the manifests do not cover of the transactions ``after < commit_seq <= last``; of one
    table's changes, or of all tables'.
    """
    slices = life.slices
    if not slices:
        yield "no manifest says that what is exported is whole"
        return
    wholes = [part for part in slices if _all_of(part, dataset)]
    covered = after
    for part in sorted(wholes, key=lambda each: (each.after_seq, each.through_seq)):
        if part.after_seq <= covered:
            covered = max(covered, part.through_seq)
    if covered < last:
        filtered = "" if len(wholes) == len(slices) else (
            " (slices narrowed by table, operation, actor, time or else do not count)"
        )  # fmt: skip
        yield f"transactions {covered + 1} to {last} of it are not exported whole{filtered}"


def _all_of(part: Slice, dataset: Dataset | None) -> bool:
    """Whether a slice has all changes in its transactions, of the table or of all."""
    if part.operations or part.actors or part.narrowed:
        return False
    if part.since is not None or part.until is not None:
        return False
    return not part.tables or (dataset is not None and dataset.name in part.tables)
