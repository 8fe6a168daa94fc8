"""Digests of files."""

import hashlib
from pathlib import Path


def digests(root: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, by its path."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
