"""What stands beside files of which something was erased: that it was, and what they are now."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.parquet.erasing.rewriting import is_rewritten
from replview.parquet.erasing.wanted import Wanted
from replview.parquet.writing.half_files import told
from replview.parquet.writing.layout import MANIFEST, MANIFESTS
from replview.parquet.writing.parts import sha256_of
from replview.parquet.writing.targets import Target

ERASED = "_erased.json"


@dataclass(frozen=True, slots=True)
class Notes:
    """Of one life's folder."""

    target: Target
    folder: str
    wanted: Wanted

    def rewritten(self) -> list[str]:
        """Files that an earlier try of this act has written anew."""
        mine = [each for each in self._all() if each["erasure"] == self.wanted.erasure]
        paths = {path for each in mine for path in each["files"]}
        there = [path for path in sorted(paths) if self.target.size(path) is not None]
        return [path for path in there if is_rewritten(self.target, path, self.wanted.erasure)]

    def write(self, files: Sequence[str], rows: int, *, finished: bool) -> None:
        """That something is erased from these files, never what."""
        notes = self._all()
        others = [each for each in notes if each["erasure"] != self.wanted.erasure]
        before = [int(each["rows"]) for each in notes if each not in others]
        mine = {
            "erasure": self.wanted.erasure,
            "on": self.wanted.day,
            "files": list(files),
            "rows": max([rows, *before]),
            "finished": finished,
        }
        self._write(f"{self.folder}/{ERASED}", {"format": 1, "erasures": [*others, mine]})

    def put_manifests_right(self, files: Sequence[str]) -> None:
        """They tell the sizes and checksums that the files have now, and no erased name."""
        sums: dict[str, tuple[str, int]] = {}
        for path in self._manifests():
            document = orjson.loads(self.target.read_bytes(path) or b"{}")
            mine = [each for each in document.get("files", ()) if each["path"] in files]
            for each in mine:
                if each["path"] not in sums:
                    with told(), self.target.open(each["path"]) as file:
                        sums[each["path"]] = sha256_of(file)
                each["sha256"], each["bytes"] = sums[each["path"]]
            part = document.get("slice") or {}
            named = any([self._clear_text_in(part), self._rename_in(part)])
            if mine:
                document["bytes"] = sum(each["bytes"] for each in document["files"])
                acts = {each["erasure"]: each for each in document.get("erased", ())}
                act = {"erasure": self.wanted.erasure, "on": self.wanted.day}
                document["erased"] = list({**acts, self.wanted.erasure: act}.values())
            if mine or named:
                self._write(path, document)

    def _clear_text_in(self, part: dict[str, Any]) -> bool:
        """A slice that was narrowed by a text that is erased; whether it was."""
        narrowed = part.get("narrowed") or {}
        if narrowed.get("text") not in self.wanted.texts:
            return False
        narrowed["text"] = self.wanted.texts[narrowed["text"]]
        return True

    def _rename_in(self, part: dict[str, Any]) -> bool:
        """A slice that was narrowed to the actor, or by the name as a text; whether it was."""
        name, alias = self.wanted.actor, self.wanted.alias
        narrowed = part.get("narrowed") or {}
        text = str(narrowed.get("text") or "")
        if not name or not (name in (part.get("actors") or ()) or name in text):
            return False
        part["actors"] = [alias if each == name else each for each in part.get("actors") or ()]
        if text:
            narrowed["text"] = text.replace(name, alias)
        return True

    def _manifests(self) -> list[str]:
        """Of the slices, and of the one that was written last."""
        found = [each.path for each in self.target.files(f"{self.folder}/{MANIFESTS}")]
        last = f"{self.folder}/{MANIFEST}"
        return [*found, *([last] if self.target.size(last) is not None else [])]

    def _all(self) -> list[dict[str, Any]]:
        data = self.target.read_bytes(f"{self.folder}/{ERASED}")
        return list(orjson.loads(data)["erasures"]) if data else []

    def _write(self, path: str, document: dict[str, Any]) -> None:
        self.target.write_bytes(path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
