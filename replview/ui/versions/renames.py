"""Which columns are likely the same under another name.

PostgreSQL keeps the order of columns and adds new ones at the end. So a new name between columns
that stayed is a column renamed; at the end it may as well be one dropped and another added. What
was seen is only ever the result, so a rename is called *likely*, with the evidence.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replview.text.formats import plural
from replview.ui.versions.shapes import Column, Shape

#: Of rows changed on both sides so many, none with the same value, tell that nothing was renamed.
_ENOUGH_ROWS = 3


@dataclass(frozen=True, slots=True)
class Carried:
    """Of rows changed on both sides of a change: how many kept a column's value."""

    compared: int
    equal: int


def rename_candidates(before: Shape, after: Shape) -> list[tuple[str, str]]:
    """Columns that are likely renamed, by their places and types alone."""
    names = {c.name for c in before.columns} & {c.name for c in after.columns}
    stable = stable_names([c.name for c in before.columns], [c.name for c in after.columns])
    return list(renames(before.columns, after.columns, stable, names)[0])


def stable_names(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """The names that stand in the same order on both sides: the longest such row of them."""
    place = {name: number for number, name in enumerate(after)}
    both = [name for name in before if name in place]
    tails: list[int] = []
    chains: list[list[str]] = []
    for name in both:
        at = bisect_left(tails, place[name])
        chain = [*(chains[at - 1] if at else []), name]
        tails[at : at + 1], chains[at : at + 1] = [place[name]], [chain]
    return set(chains[-1]) if chains else set()


def renames(
    before: Sequence[Column], after: Sequence[Column], stable: set[str], both: set[str]
) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """Likely renames with their evidence; and of other columns, why they are none."""
    pairs: dict[tuple[str, str], str] = {}
    notes: dict[str, str] = {}
    gone, come = _between(before, stable, both), _between(after, stable, both)
    for number, (left, right, old) in enumerate(gone):
        new, last = come[number][2], number == len(gone) - 1
        if not old or not new:
            continue
        alike = [o.type_id == n.type_id for o, n in zip(old, new, strict=False)]
        if len(old) != len(new) or (last and len(old) > 1):
            for column in (*old, *new):
                notes[column.name] = "several at this place: a rename cannot be told"
            continue
        for o, n, same_type in zip(old, new, alike, strict=True):
            if same_type and (last or all(alike)):
                pairs[o.name, n.name] = _place_words(left, right, last)
            else:
                notes[o.name] = notes[n.name] = "not renamed: types differ"
    return pairs, notes


def _between(
    columns: Sequence[Column], stable: set[str], both: set[str]
) -> list[tuple[str, str, list[Column]]]:
    """The columns of one side alone, by the stable neighbours they stand between."""
    found: list[tuple[str, str, list[Column]]] = []
    left, inside = "", list[Column]()
    for column in columns:
        if column.name in stable:
            found.append((left, column.name, inside))
            left, inside = column.name, []
        elif column.name not in both:
            inside.append(column)
    return [*found, (left, "", inside)]


def _place_words(left: str, right: str, last: bool) -> str:
    if last:
        where = f"after {left}" if left else "the only place"
        return f"same place, {where}, and type; dropped and added would look alike"
    where = f"between {left} and {right}" if left else f"before {right}"
    return f"same place, {where}, and type; a column added would stand last"


def refuted(pair: tuple[str, str], carried: Mapping[tuple[str, str], Carried] | None) -> bool:
    """The values of stored rows tell otherwise."""
    seen = (carried or {}).get(pair)
    return seen is not None and seen.compared >= _ENOUGH_ROWS and seen.equal == 0


def carried_words(carried: Mapping[tuple[str, str], Carried] | None, pair: tuple[str, str]) -> str:
    """What the values of stored rows tell; empty: nothing."""
    seen = (carried or {}).get(pair)
    if seen is None or not seen.compared:
        return ""
    rows = plural(seen.compared, "row")
    if seen.equal == 0:
        return f"none of {rows} changed on both sides kept its value"
    return f"{seen.equal} of {rows} changed on both sides kept the value"
