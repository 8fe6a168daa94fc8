"""Identify rows over all of a table's history, whichever key they had at the time.

A table's key may change: its replica identity becomes another index, or it gets another primary
key. Later changes identify their rows by the new key. If a row's values of the new key are known at
that place and no other row has them, it continues as the same row. Otherwise its further history is
unknown: a row of change type ``lost`` ends it, and it is counted.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from decoder.scalars import LSN
from replview.spark.history.datasets import Dataset
from replview.spark.history.engines import DataFrame, Expression, F, Window
from replview.spark.history.row_intervals import (
    GONE,
    LOST,
    NEXT,
    PLACE,
    RANK,
    Truncations,
    Unsent,
    in_epochs,
    key_names,
    nameless,
    place,
    placed,
    shape,
    with_intervals,
)
from replview.spark.quoting import tick

#: Column with the stretch whose key identifies the row; without key, with the change itself.
_SINCE = "_place"


@dataclass(frozen=True)
class Keyed:
    """Changes in epochs, each with columns that identify its row."""

    rows: DataFrame
    #: Names of these columns.
    names: Sequence[str]
    #: Sentences that say why rows could not be followed.
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class _KeyStretch:
    """Changes under one key, until the next stretch."""

    key: tuple[str, ...]
    #: Place of its first change as ``PLACE``, and its commit time.
    place: tuple[int, ...]
    time: dt.datetime | None
    epoch: int

    @property
    def start(self) -> Expression:
        """Return the place of the first change."""
        kinds = ("bigint", "int", "int", "int")
        return F.struct(*(
            F.lit(value).cast(kind).alias(name)
            for name, value, kind in zip(PLACE, self.place, kinds, strict=True)
        ))  # fmt: skip


def keyed(
    dataset: Dataset,
    changes: DataFrame,
    truncations: Truncations | None = None,
    *,
    keep_nameless: bool = False,
) -> Keyed:
    """Return the changes with columns that identify their rows.

    ``keep_nameless`` keeps changes from a time without key, each as a row of its own. Raises
    ``SparkProblem`` if the table never had a key.
    """
    names = key_names(dataset.key_columns)
    rows = in_epochs(placed(changes, dataset), truncations)
    if len(dataset.keys) == 1:
        return Keyed(rows.where(~nameless(dataset)), names)
    # Read once, since Spark needs minutes to plan all that follows as one plan.
    rows = rows.localCheckpoint()
    stretches = _stretches(dataset, rows)
    found = Keyed(_own(dataset, rows, stretches, 0), [*names, _SINCE])
    for number in range(1, len(stretches)):
        more = _own(dataset, rows, stretches, number)
        found = _went_on(dataset, found, more, stretches, number)
    kept = found.rows if keep_nameless else found.rows.where(~_nameless())
    return replace(found, rows=kept.localCheckpoint())


def _nameless() -> Expression:
    """Return the test for a change, other than an insert, from a time without key."""
    return F.col(_SINCE)["own"].eqNullSafe(place()) & (F.col("_change_type") != "insert")


def _stretches(dataset: Dataset, rows: DataFrame) -> list[_KeyStretch]:
    """Return the stretches between changes of the key; at least one."""
    keys, newest = list(dataset.keys), dataset.version(None)
    numbers = [F.lit(n) for i, of in enumerate(dataset.keys.values()) for v in of for n in (v, i)]
    key = F.coalesce(
        F.try_element_at(F.create_map(*numbers), shape(dataset)),
        F.lit(keys.index(newest.key_columns)),
    )
    # Sort within partitions, so that no task sorts all rows.
    parts = rows.select(key.alias("key"), place().alias("place"), "_commit_timestamp", "_epoch")
    parts = parts.repartitionByRange("place").withColumn("part", F.spark_partition_id())
    before = F.lag("key").over(Window.partitionBy("part").orderBy("place"))
    changed = parts.withColumn("before", before).where(~F.col("key").eqNullSafe(F.col("before")))
    found: list[_KeyStretch] = []
    for row in sorted(changed.collect(), key=lambda each: tuple(each["place"])):
        if not found or found[-1].key != keys[row["key"]]:
            found.append(_KeyStretch(keys[row["key"]], tuple(row["place"]), *row[2:4]))
    return found or [_KeyStretch(newest.key_columns, (0, 0, 0, 0), None, 0)]


def _own(
    dataset: Dataset, rows: DataFrame, stretches: Sequence[_KeyStretch], number: int
) -> DataFrame:
    """Return the rows of one stretch, identified by its key."""
    here, *later = stretches[number:]
    if number:
        rows = rows.where((F.col("_commit_version") >= here.place[0]) & (place() >= here.start))
    if later:
        end = later[0]
        rows = rows.where((F.col("_commit_version") <= end.place[0]) & (place() < end.start))
    if here.key:
        rows = rows.where(~nameless(dataset))
    own = F.when(F.lit(not here.key), place())
    return rows.withColumn(_SINCE, F.struct(F.lit(number).alias("stretch"), own.alias("own")))


def _went_on(
    dataset: Dataset,
    found: Keyed,
    more: DataFrame,
    stretches: Sequence[_KeyStretch],
    number: int,
) -> Keyed:
    """Add the rows of a stretch, identified as before if the row existed before."""
    before, here = stretches[number - 1 : number + 1]
    if not here.key:
        return replace(found, rows=found.rows.unionByName(more))
    there = _there(dataset, found, here)
    of_nobody = _nameless() & (F.col(_SINCE)["stretch"] == number - 1)
    if not before.key and not found.rows.where(of_nobody).isEmpty():
        # Changes without key may belong to any row, so no row can be followed.
        there = there.withColumn("followed", F.lit(False))
    # Drop the plan, which the plans of later stretches would repeat.
    there = there.localCheckpoint()
    lost = there.where(~F.col("followed"))
    joined = _as_before(dataset, found, more, there.where(F.col("followed")), here)
    rows = found.rows.unionByName(_ended(found, lost, more, here)).unionByName(joined)
    count, shown = lost.count(), [", ".join(each) or "none" for each in (before.key, here.key)]
    reason = (
        f"{count} rows cannot be followed across the change of the key from ({shown[0]}) to "
        f"({shown[1]}) at {LSN(here.place[0])}: what became of them is unknown"
    )
    return Keyed(rows, found.names, (*found.reasons, *([reason] if count else ())))


def _as_before(
    dataset: Dataset, found: Keyed, more: DataFrame, there: DataFrame, here: _KeyStretch
) -> DataFrame:
    """Return a stretch's rows, identified as the rows that existed before."""
    columns = [column.source_name for column in dataset.key_columns]
    same = []
    for n, name in enumerate(f"_key{columns.index(each)}" for each in here.key):
        same.append(F.col(name).eqNullSafe(F.col(f"_known{n}.value")))
        if f"{name}_raw" in found.names:
            same.append(F.col(f"{name}_raw").eqNullSafe(F.col(f"_known{n}.raw")))
    joined = more.join(there, reduce(and_, same), "left")
    former = {name: F.col(f"_raw{n}") for n, name in enumerate(found.names)}
    return joined.withColumns({
        name: F.when(former[_SINCE].isNotNull(), was).otherwise(F.col(name))
        for name, was in former.items()
    }).select(*map(tick, more.columns))  # fmt: skip


def _ended(found: Keyed, lost: DataFrame, more: DataFrame, here: _KeyStretch) -> DataFrame:
    """Return the rows that end lost rows where a stretch begins."""
    ends = {
        **{name: F.col(f"_raw{n}") for n, name in enumerate(found.names)},
        **dict(zip(PLACE, map(F.lit, here.place), strict=True)), RANK: F.lit(-1),
        "_change_type": F.lit(LOST), "_commit_timestamp": F.lit(here.time),
        "_epoch": F.lit(here.epoch),
    }  # fmt: skip
    return lost.select(*(
        ends.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name)
        for each in more.schema
    ))  # fmt: skip


def _there(dataset: Dataset, found: Keyed, here: _KeyStretch) -> DataFrame:
    """Return the rows that existed when a stretch began.

    Columns: their former identification (``_raw<n>``), their values of the new key (``_known<n>``),
    and whether these identify them (``followed``).
    """
    known = {column.source_name: column for column in dataset.key_columns}
    unsent = Unsent(dataset, [known[name] for name in here.key])
    rows = with_intervals(found.rows.where(~_nameless()), found.names)
    rows = unsent.filled(rows, found.names)
    rows = rows.where(F.col(NEXT).isNull() & ~F.col(GONE) & (F.col("_epoch") == here.epoch))
    names = [unsent.known(n) for n in range(len(here.key))]
    told = [F.col(n)["value"].isNotNull() | F.col(n)["raw"].isNotNull() for n in names]
    alone = F.count("*").over(Window.partitionBy(*names)) == 1
    followed = F.coalesce(reduce(and_, told), F.lit(False)) & alone
    former = [F.col(name).alias(f"_raw{n}") for n, name in enumerate(found.names)]
    return rows.select(*former, *names, followed.alias("followed"))
