"""A table's exported history, written row by row where an export would stand."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from replview.parquet.slice_schemas import EVENTS, TRANSACTIONS
from replview.parquet.slices import Slice, SliceTable, TableVersion
from replview.parquet.writing import layout
from replview.parquet.writing.datasets import table_document
from replview.spark.history.datasets import Dataset

BEGAN = dt.datetime(2026, 11, 20, 23, 50, tzinfo=dt.UTC)
OID = 16384


def column(name: str, kind: str) -> dict[str, Any]:
    """A column as a shape has it."""
    return {"name": name, "type": kind, "type_oid": 0, "typmod": -1}


V1 = (column("id", "integer"), column("a", "text"), column("big", "text"))


@dataclass
class History:
    """``t``, one transaction a call, each five minutes after the one before."""

    root: Path
    versions: list[TableVersion] = field(
        default_factory=lambda: [TableVersion(id=1, number=1, columns=V1, key_columns=("id",))]
    )
    rows: list[dict] = field(default_factory=list)
    transactions: list[dict] = field(default_factory=list)
    events: list[dict] = field(default_factory=list)

    def commit(
        self, *changes: tuple, actor: str | None = None, actors: list[str] | None = None,
        baseline: bool = False,
    ) -> int:  # fmt: skip
        """``("I", row)``, ``("U", row[, old key or whole old row])``, ``("D", key)``, ``("T",)``;
        gives the commit LSN. What a row leaves out was not sent.
        """
        number = len(self.transactions) + 1
        lsn = number * 256
        time = BEGAN + dt.timedelta(minutes=5 * number)
        own = {
            "commit_seq": number,
            "_commit_version": lsn,
            "commit_time": time,
            "actor": actor,
            "actors": actors,
            "xid": None if baseline else 700 + number,
            "incarnation": 1,
        }
        count = {"I": 0, "U": 0, "D": 0, "T": 0}
        for seq, (kind, *images) in enumerate(changes, start=1):
            count[kind] += 1
            place = (own, seq)
            if kind == "T":
                self.events.append({**own, "seq": seq, "op": "truncate", "schema": "public",
                                    "table": "t", "relation_oid": OID})  # fmt: skip
            elif kind == "U":
                if len(images) == 2:
                    self._row("update_preimage", images[1], *place)
                self._row("update_postimage", images[0], *place)
            else:
                self._row("insert" if kind == "I" else "delete", images[0], *place)
        self.transactions.append(
            {
                **own,
                "state": "snapshot" if baseline else "committed",
                "inserts": count["I"],
                "updates": count["U"],
                "deletes": count["D"],
                "truncates": count["T"],
                "messages": 0,
                "size_bytes": 100 * len(changes),
            }
        )
        return lsn

    def _row(self, kind: str, image: dict, own: dict, seq: int) -> None:
        names = [each["name"] for each in self.versions[-1].columns]
        self.rows.append(
            {
                **image,
                "_change_type": kind,
                "_commit_version": own["_commit_version"],
                "_commit_timestamp": own["commit_time"],
                "_lsn": "0/0",
                "_xid": own["xid"],
                "_commit_seq": own["commit_seq"],
                "_seq": seq,
                "_actor": own["actor"],
                "_derived": False,
                "_pg_raw": [],
                "_relation_version": self.versions[-1].number,
                "_not_sent": [name for name in names if name not in image],
            }
        )

    def becomes(self, *columns: dict[str, Any], key: tuple[str, ...] = ("id",)) -> None:
        """The table has another shape from now on."""
        number = len(self.versions) + 1
        self.versions.append(
            TableVersion(id=number, number=number, columns=columns, key_columns=key)
        )

    def write(self, *, after: int = 0, gaps: Sequence[Mapping[str, object]] = ()) -> Dataset:
        """Write the history as one slice and return its dataset.

        With ``after``, the manifest says that the slice begins after this transaction. ``gaps`` are
        the gaps that the manifest names.
        """
        table = SliceTable(relation_id=1, oid=OID, schema="public", table="t",
                           versions=tuple(self.versions))  # fmt: skip
        incarnation = self.root / "source" / "slot-1"
        _write(incarnation / "public.t", table.arrow_schema(), self.rows, "_commit_timestamp")
        document = orjson.dumps(table_document(table, None))
        (incarnation / "public.t" / "_schema.json").write_bytes(document)
        _write(incarnation / layout.TRANSACTIONS, TRANSACTIONS, self.transactions, "commit_time")
        _write(incarnation / layout.EVENTS, EVENTS, self.events, "commit_time")
        part = Slice(source="source", slot="slot", incarnation_id=1, incarnation=1,
                     after_seq=after, through_seq=len(self.transactions))  # fmt: skip
        (incarnation / layout.MANIFESTS).mkdir(exist_ok=True)
        name = f"{layout.slice_name(part)}.json"
        manifest = {"slice": part.to_json(), "gaps": gaps}
        (incarnation / layout.MANIFESTS / name).write_bytes(orjson.dumps(manifest))
        return Dataset.find(str(self.root), "public.t")


def _write(folder: Path, schema: pa.Schema, rows: list[dict], time: str) -> None:
    days = {row[time].date() for row in rows}
    for day in days:
        place = folder / f"commit_date={day}"
        place.mkdir(parents=True)
        of_day = [row for row in rows if row[time].date() == day]
        pq.write_table(pa.Table.from_pylist(of_day, schema), place / "part-0.zstd.parquet")
