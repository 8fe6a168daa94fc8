"""Masked columns in what a history job gives: null, and marked as in the files.

The job itself reads files as they are: a row is still known by its key, whether anybody may see
that or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from replview.spark.history.datasets import Dataset
from replview.spark.history.lives import quoted
from replview.spark.history.results import Result

_MARK = '{"$masked":true}'


def masked_of(dataset: Dataset, masked: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The masked columns of a table, under whatever name it had."""
    names = {dataset.relation.name, dataset.folder}
    return frozenset(column for name in names for column in masked.get(name, ()))


def without_masked(result: Result, dataset: Dataset, masked: Mapping[str, Sequence[str]]) -> Result:
    """The rows without the values of the table's masked columns."""
    from pyspark.sql import functions as F

    of = masked_of(dataset, masked)
    frame = result.frame
    mine = [c for c in dataset.columns if c.source_name in of and c.name in frame.columns]
    if not mine:
        return result
    if "_pg_raw" in frame.columns:
        own = [column.source_name for column in mine]
        marks = F.array(
            *(
                F.when(
                    F.col(quoted(c.name)).isNotNull()
                    | F.try_element_at("_pg_raw", F.lit(c.source_name)).isNotNull(),
                    F.struct(F.lit(c.source_name).alias("key"), F.lit(_MARK).alias("value")),
                )
                for c in mine
            )
        )
        kept = F.map_filter("_pg_raw", lambda key, _: ~key.isin(own))
        there = F.map_from_entries(F.array_compact(marks))
        raw = F.map_concat(F.coalesce(kept, F.create_map().cast("map<string,string>")), there)
        frame = frame.withColumn("_pg_raw", raw)
    kinds = dict(frame.dtypes)
    for column in mine:
        frame = frame.withColumn(column.name, F.lit(None).cast(kinds[column.name]))
    told = {**result.told, "masked": sorted(of)}
    return replace(result, frame=frame, told=told)
