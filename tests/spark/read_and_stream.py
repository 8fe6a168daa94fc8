"""Read and stream a table ``public.t`` on the PySpark that is found first, in a process of its own.

``python -m tests.spark.read_and_stream DSN FOLDER`` prints what was found as JSON.
"""

import json
import sys
from pathlib import Path

import pyspark

from replview.spark.sessions import session
from tests.spark.streaming import stream_into


def main(dsn: str, folder: Path) -> None:
    spark = session("local[1]")
    table = {"dsn": dsn, "relation": "public.t"}
    frame = spark.read.format("replview").options(**table).load()
    limited = stream_into(spark, folder / "limited", maxRowsPerTrigger="20", **table)
    ended = stream_into(spark, folder / "ended", upTo='{"1": 2}', **table)
    out = spark.read.parquet(str(folder / "limited" / "out"))
    found = {
        "version": pyspark.__version__,
        "read": sorted(row.id for row in frame.collect()),
        "of a key": [row.id for row in frame.where("id = 7").collect()],
        "streamed": sorted(row.id for row in out.collect()),
        "times": sorted({str(row.at) for row in frame.select("at").collect()}),
        "last column": frame.columns[-1],
        "batches": limited,
        "batches up to an offset": ended,
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
