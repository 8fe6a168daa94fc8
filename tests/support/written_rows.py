"""The rows and types of an export's files, whichever engine wrote them."""

import hashlib
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

#: Fields of a manifest about the bytes of a file, which differ from engine to engine.
_BYTES = {"bytes", "sha256"}


def written_rows(root: Path) -> dict[str, Any]:
    """Return every file below a folder by its path: its types and a checksum of its rows in order.

    Other files are there by their content; in documents sizes and checksums of files are left out.
    """
    return {
        str(path.relative_to(root)): _content(path)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _content(path: Path) -> object:
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        table = file.read()
        groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
        layout = [(group.num_rows, group.column(0).compression) for group in groups]
        types = {field.name: _type_text(field.type) for field in table.schema}
        rows = repr(table.to_pylist(maps_as_pydicts="strict")).encode()
        return types, layout, hashlib.sha256(rows).hexdigest()
    if path.suffix == ".json":
        return _without_bytes(orjson.loads(path.read_bytes()))
    return path.read_bytes()


def _type_text(kind: pa.DataType) -> str:
    """Return a type without the names of the fields in a list, which differ."""
    if pa.types.is_list(kind):
        return f"list<{_type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_type_text(kind.key_type)}, {_type_text(kind.item_type)}>"
    return str(kind)


def _without_bytes(document: object) -> object:
    if isinstance(document, dict):
        kept = ((name, value) for name, value in document.items() if name not in _BYTES)
        return {name: _without_bytes(value) for name, value in kept}
    if isinstance(document, list):
        return [_without_bytes(each) for each in document]
    return document
