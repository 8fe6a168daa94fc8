"""Write a segment, and say what it holds."""

from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replview.segments.layout import GROUP_BYTES, GROUP_ROWS, IMAGES, SCHEMA, VERSION

#: Columns with few different values.
_REPEATED = ["relation_id", "version_id", "op", "old_kind"]
#: Columns whose values are close to the one before.
_ASCENDING = ["commit_seq", "transaction_id", "seq", "lsn", "subxid"]
#: Columns by which whole row groups are skipped.
_COMPARED = ["commit_seq", "transaction_id", "relation_id"]
_ENCODINGS = dict.fromkeys(_ASCENDING, "DELTA_BINARY_PACKED") | dict.fromkeys(
    IMAGES, "DELTA_LENGTH_BYTE_ARRAY"
)


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """The contents of a segment, by which a reader tells whether it may answer a question."""

    changes: int
    #: Least and greatest place in history; None: no change has one.
    commit_seqs: tuple[int, int] | None
    #: Least and greatest identifier of a transaction.
    transaction_ids: tuple[int, int]
    lsns: tuple[int, int]
    #: Tables with changes, in order; logical messages belong to none.
    relation_ids: tuple[int, ...]

    @classmethod
    def of(cls, changes: pa.Table) -> "SegmentContents":
        """Return what a segment with these changes, at least one, holds."""
        commit_seqs = _range(changes, "commit_seq")
        transaction_ids, lsns = _range(changes, "transaction_id"), _range(changes, "lsn")
        assert transaction_ids is not None
        assert lsns is not None
        relations = pc.unique(changes["relation_id"]).drop_null().to_pylist()
        return cls(len(changes), commit_seqs, transaction_ids, lsns, tuple(sorted(relations)))


def write_segment(
    incarnation_id: int, changes: pa.Table, *, group_rows: int = GROUP_ROWS
) -> pa.Buffer:
    """Return a segment with these changes, which are in the order (``commit_seq``, ``seq``).

    Row groups have ``group_rows`` changes, fewer where images are large. The whole segment is in
    memory: the caller limits the number of changes and their bytes.
    """
    image_bytes = sum(changes[name].nbytes for name in IMAGES)
    fitting_rows = len(changes) * GROUP_BYTES // max(image_bytes, 1)
    footer = orjson.dumps({"segment": VERSION, "incarnation": incarnation_id})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        use_dictionary=_REPEATED,
        column_encoding=_ENCODINGS,
        write_statistics=_COMPARED,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.write_table(changes, row_group_size=max(1, min(group_rows, fitting_rows)))
        writer.add_key_value_metadata({"replview": footer.decode()})
    return sink.getvalue()


def _range(changes: pa.Table, column: str) -> tuple[int, int] | None:
    ends = pc.min_max(changes[column]).as_py()
    return None if ends["min"] is None else (ends["min"], ends["max"])
