"""The SQL that writes ``current``: insert, merge and forget rows."""

# ruff: noqa: S608 (SQL of quoted names and constants)

from collections.abc import Mapping, Sequence

from replview.spark.lake.folding import LAST_CHANGE, Folding
from replview.spark.quoting import spark_literal, tick

#: The view with the folded changes.
SOURCE = "replview_lake_source"


def forget_statement(current: str, columns: Mapping[str, str], key: Sequence[str]) -> str:
    """Return the UPDATE that makes every column of every row unknown; values of keys stay.

    ``columns``: names on the source by names in the lake.
    """
    kept = names_sql([columns[name] for name in key])
    nulls = "".join(f"{tick(name)} = NULL, " for name in columns if name not in key)
    return (
        f"UPDATE {current} SET {nulls}_unknown = {names_sql([*columns])}, "
        f"_pg_raw = map_filter(_pg_raw, (name, _) -> array_contains({kept}, name)) "
        f"WHERE size(_unknown) < {len(columns)}"
    )


def names_sql(names: Sequence[str]) -> str:
    """Return the SQL of an array of columns' names."""
    return f"array({', '.join(map(spark_literal, names))})"


def insert_statement(current: str, folding: Folding) -> str:
    """Return the INSERT of the folded changes into ``current``, to which no row was merged yet."""
    names = ", ".join(map(tick, (*folding.columns, *LAST_CHANGE, "_unknown", "_pg_raw", "_bucket")))
    return (
        f"INSERT INTO {current} ({names}) "
        f"SELECT {names} FROM {SOURCE} WHERE _change_type <> 'delete'"
    )


def merge_statement(current: str, folding: Folding) -> str:
    """Return the MERGE of the folded changes into ``current``, each row under its key."""
    on = " AND ".join(f"t.{part} <=> s.{part}" for part in folding.key_parts)
    kept = {
        name: f"CASE WHEN array_contains(s._kept, {spark_literal(name)}) THEN t.{tick(name)} "
        f"ELSE s.{tick(name)} END"
        for name in folding.not_sent
    }
    values = {name: f"s.{tick(name)}" for name in (*folding.columns, *LAST_CHANGE)} | kept
    values["_unknown"] = (
        "array_union(array_intersect(t._unknown, s._kept), array_except(s._unknown, s._kept))"
    )
    values["_pg_raw"] = _raw(folding)
    updates = ", ".join(f"{tick(name)} = {value}" for name, value in values.items())
    names = [*values, "_bucket"]
    inserted = ", ".join(f"s.{tick(name)}" for name in names)
    newer = "(t._incarnation <> s._incarnation OR t._commit_version <= s._commit_version)"
    return (
        f"MERGE INTO {current} t USING {SOURCE} s ON t._bucket = s._bucket AND {on} "
        f"WHEN MATCHED AND {newer} AND s._change_type = 'delete' THEN DELETE "
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {updates} "
        "WHEN NOT MATCHED AND s._change_type <> 'delete' "
        f"THEN INSERT ({', '.join(map(tick, names))}) VALUES ({inserted})"
    )


def _raw(folding: Folding) -> str:
    """Return the SQL of the texts of a row's values that their types cannot hold."""
    if not folding.not_sent:
        return "s._pg_raw"
    kept = " OR ".join(
        f"(name = {spark_literal(folding.columns[each])} "
        f"AND array_contains(s._kept, {spark_literal(each)}))"
        for each in folding.not_sent
    )
    return f"map_concat(s._pg_raw, map_filter(t._pg_raw, (name, text) -> {kept}))"
