"""``python -m replview.spark.artefact FOLDER``: what ``spark-submit`` takes along to a cluster.

``replview-spark.zip`` (for ``--py-files``) holds the decoder, ``replview.parquet``,
``replview.spark``, ``replview.store.read`` and what they use of ``replview.text`` and
``replview.runtime``; no Django;
``replview-spark.py`` is the program that ``spark-submit`` starts::

    spark-submit --master yarn --py-files replview-spark.zip replview-spark.py as-of --root s3://…

The cluster's Python needs pyspark, pyarrow and orjson, and psycopg where the store is read. Equal
sources give equal bytes.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

_PROGRAM = '''"""For spark-submit, with --py-files replview-spark.zip: one of replview's jobs."""

import sys

from replview.spark.__main__ import main

sys.exit(main())
'''
#: Single modules of packages that are not taken along.
_USED = (
    "replview/text/problem.py", "replview/text/parsing.py", "replview/runtime/failpoints.py",
)  # fmt: skip
#: The first moment that a zip can tell: every build's.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def build(folder: Path) -> tuple[Path, Path]:
    """Write both files into a folder; gives the zip and the program."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, program = folder / "replview-spark.zip", folder / "replview-spark.py"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in _contents():
            packed.writestr(zipfile.ZipInfo(name, _MOMENT), text, zipfile.ZIP_DEFLATED)
    program.write_text(_PROGRAM)
    return archive, program


def carried(folder: Path) -> Path:
    """The zip that a Spark Connect server is sent: the one that we run from, else one made in this
    folder.
    """
    root = Path(__file__).parent.parent.parent
    return root if root.is_file() else build(folder)[0]


def _contents() -> Iterator[tuple[str, bytes]]:
    root = Path(__file__).parent.parent.parent
    # The project's own __init__ may import what a cluster has not.
    yield "replview/__init__.py", b""
    yield "replview/store/__init__.py", b""
    yield "replview/text/__init__.py", b""
    yield "replview/runtime/__init__.py", b""
    for used in _USED:
        yield used, (root / used).read_bytes()
    for package in ("decoder", "replview/parquet", "replview/spark", "replview/store/read"):
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root).as_posix(), path.read_bytes()
    # So that ``python replview-spark.zip JOB …`` runs, too.
    yield "__main__.py", _PROGRAM.encode()


if __name__ == "__main__":
    for made in build(Path(sys.argv[1] if len(sys.argv) > 1 else "build")):
        print(made)
