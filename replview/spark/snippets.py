"""Programs that read the changes of an exported dataset in their order, by engine.

The rows of a table are what ``replview spark as-of`` computes, and a lake's ``current`` holds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from replview.spark.quoting import py, py_list
from replview.spark.reading_programs import (
    Program,
    RootSchema,
    duckdb_secret,
    read_by_arrow,
    read_by_duckdb,
    read_by_spark,
    readable,
    spark_options,
)

_ORDER = ["_commit_seq", "_seq"]
#: The row before an update precedes the row after it.
_AFTER = "_change_type <> 'update_preimage'"
_TO_PANDAS = """\
# Arrow's types: whole numbers beyond 2^53 stay what they are, and null is no NaN.
changes = table.to_pandas(types_mapper=pd.ArrowDtype)
"""


def snippets(
    folder: str, document: Mapping[str, Any], *, before: Sequence[RootSchema] = ()
) -> list[Program]:
    """Return the programs for the dataset at ``folder`` (a path or URL), by its ``_schema.json``.

    ``before`` has its other roots in order, which are read too.
    """
    roots = readable([*before, (folder, document)])
    table = read_by_arrow(roots)
    texts = {
        "pandas": f"import pandas as pd\n{table}{_TO_PANDAS}"
        f"changes = changes.sort_values({py_list(_ORDER)})\n",
        "Polars": f"import polars as pl\n{table}"
        f"changes = pl.from_arrow(table).sort({py_list(_ORDER)}, maintain_order=True)\n",
        "DuckDB": f"{duckdb_secret(folder)}FROM {read_by_duckdb(roots)}\n"
        f"ORDER BY {', '.join(_ORDER)}, {_AFTER};\n",
        "Spark": _spark(roots),
    }
    return [
        Program(name, "sql" if name == "DuckDB" else "python", text) for name, text in texts.items()
    ]


def _spark(roots: Sequence[RootSchema]) -> str:
    program = read_by_spark(roots)
    imports = "from pyspark.sql import functions as F\n\n"
    imports = "" if imports in program else imports
    order = f"changes = changes.orderBy(*{py_list(_ORDER)}, F.expr({py(_AFTER)}))\n"
    return f"{imports}{spark_options(roots[-1][0])}{program}{order}"
