"""``python -m replview.spark.archive_job JOB.json`` archives one slice in its own process.

The file has ``slice`` (the slice that is wanted next, as ``Slice.to_json()``), ``target``, and
``abandoned`` (slices of exports to that target that ended before they were complete). The store's
address is in the environment. Standard output is one JSON object: ``{"after_seq", "through_seq",
"bytes", "opened", "transactions", "changes"}`` of the slice that was written (it may differ from
the wanted one, see ``increments``; ``opened`` has the roots that it opened, and why), or
``{"problem", "remedy"}`` with status 1. When stopped, it keeps finished files and returns status 3.
Standard error is the log.
"""

import logging
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.parquet.archive.increments import write_next
from replview.parquet.job_process import begin, problem_of, say
from replview.parquet.slices import Slice
from replview.parquet.writing.chains import abandoned_by
from replview.parquet.writing.datasets import newly_opened
from replview.parquet.writing.manifests import Manifest
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target
from replview.spark.exit_statuses import CANCELLED, DONE, FAILED

#: Operation by ``_change_type``; a row before an update is no change of its own.
_OPERATIONS = {"insert": "insert", "update_postimage": "update", "delete": "delete"}
log = logging.getLogger("replview.archive")


def count(target: Target, manifest: Manifest) -> dict[str, object]:
    """Count the rows of a slice's files: ``transactions``, and ``changes`` as a list.

    ``changes`` has ``[table's OID or null, operation, number]``. This reads one column of each
    file. Raises ``TargetProblem`` if a file is missing or broken.
    """
    oids = {table["dataset"]: int(table["oid"]) for table in manifest.document["tables"]}
    transactions = 0
    found: Counter[tuple[int | None, str]] = Counter()
    for file in manifest.files:
        if target.size(file["path"]) != file["bytes"]:
            raise _broken()
        if file["kind"] == "transactions":
            transactions += sum(_values(target, file["path"], "commit_seq").values())
        elif file["kind"] == "events":
            found.update(_events(target, file["path"]))
        else:
            oid = oids[file["dataset"]]
            for kind, number in _values(target, file["path"], "_change_type").items():
                if kind in _OPERATIONS:
                    found[oid, _OPERATIONS[kind]] += number
    changes = [[oid, op, number] for (oid, op), number in sorted(found.items(), key=str)]
    return {"transactions": transactions, "changes": changes}


def _values(target: Target, path: str, column: str) -> Counter[str]:
    """Return how often each value of a column occurs in a file; for numbers, the number of rows."""
    found: Counter[str] = Counter()
    for batch in _batches(target, path, [column]):
        values = batch.column(0)
        if not pa.types.is_string(values.type):
            found["rows"] += batch.num_rows
            continue
        for each in pc.value_counts(values).to_pylist():
            found[each["values"]] += each["counts"]
    return found


def _events(target: Target, path: str) -> Counter[tuple[int | None, str]]:
    """Count the events of a file by table and operation; messages have no table."""
    found: Counter[tuple[int | None, str]] = Counter()
    for batch in _batches(target, path, ["op", "relation_oid"]):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for op, oid in zip(columns["op"], columns["relation_oid"], strict=True):
            found[oid if op == "truncate" else None, op] += 1
    return found


def _batches(target: Target, path: str, columns: list[str]) -> Any:
    with target.open(path) as file:
        try:
            parquet = pq.ParquetFile(file)
            yield from parquet.iter_batches(columns=columns, batch_size=1 << 17)
        except pa.ArrowException as error:
            raise _broken() from error


def _broken() -> TargetProblem:
    return TargetProblem(
        "a file of the archive is missing or not as it was written",
        "restore it, or delete the manifest of its slice in _manifests: the slice is written again",
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the job that a file describes; return the exit status."""
    path, stopped = begin(arguments)
    try:
        say(write_slice(orjson.loads(path.read_bytes()), stopped))
    except Cancelled:
        log.info("stopped")
        return CANCELLED
    except Exception as error:
        remedy = "the log of the archive's job names the place; it is tried again by itself"
        say(problem_of(error, log, what="writing", unexpected=remedy))
        return FAILED
    return DONE


def write_slice(job: Mapping[str, Any], stopped: threading.Event) -> dict[str, object]:
    """Write the slice that ``job`` describes, and count the rows in its files.

    Raises ``TargetProblem``, and ``Cancelled`` once ``stopped`` is set.
    """
    wanted, target = Slice.from_json(job["slice"]), Target.of(job["target"])
    log.info("%s/%s, %s…%s", wanted.source, wanted.slot, wanted.after_seq + 1, wanted.through_seq)
    left = abandoned_by([Slice.from_json(each) for each in job.get("abandoned", ())])
    manifest = write_next(wanted, target, dsn=None, cancelled=stopped.is_set, abandoned=left)
    seqs = manifest.document["commit_seq"]
    counted = count(target, manifest)
    log.info("counted %s transactions in %s files", counted["transactions"], len(manifest.files))
    return {
        "after_seq": seqs["after"],
        "through_seq": seqs["through"],
        "bytes": manifest.document["bytes"],
        "opened": list(newly_opened(manifest, target)),
        **counted,
    }


if __name__ == "__main__":
    sys.exit(main())
