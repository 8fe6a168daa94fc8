"""Write a slice: plan its files, write those that are missing, then publish its manifest."""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from replview.parquet.reading import connect
from replview.parquet.reading.connecting import StoreProblem
from replview.parquet.slices import Slice
from replview.parquet.writing import chains, manifests
from replview.parquet.writing.datasets import Placed, place, publish
from replview.parquet.writing.files import FilePart, PartWriter, WrittenFile
from replview.parquet.writing.layout import MANIFESTS, incarnation_folder, slice_name
from replview.parquet.writing.planning import ExportPlan, StretchesOf
from replview.parquet.writing.problems import Cancelled, TargetProblem
from replview.parquet.writing.targets import Target

#: Files written at the same time: each has a session of the store and about 300 MB.
_SIDE_BY_SIDE = 2
_LOOK_SECONDS = 0.25
#: A function that writes parts outside this process (``spark.exporting.write_parts``). It takes the
#: writer, the parts, the store's address, a function to call with numbers of changes written, and a
#: test for cancellation. It yields each finished file, and None when progress may be reported.
WriteParts = Callable[
    [PartWriter, Sequence[FilePart], str | None, Callable[[int], None], Callable[[], bool]],
    Iterator[WrittenFile | None],
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A report of how far an export has come."""

    #: Changes, transactions and events written so far, and in all.
    rows: int
    total_rows: int
    files: int
    total_files: int
    #: Bytes of the finished files.
    bytes: int
    #: None while it cannot be estimated.
    seconds_left: float | None


def export(
    part: Slice,
    target: Target,
    *,
    dsn: str | None = None,
    write_parts: WriteParts | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
    keep: bool = False,
    abandoned: chains.Abandoned = lambda name: False,
    stretches_of: StretchesOf = lambda connection, part, tables: {},
) -> manifests.Manifest:
    """Write a slice below a target's root; a slice that is whole there is left as it is.

    ``write_parts`` writes the files, as on Spark; None: this process does. Finished files of an
    earlier run are kept; files of ``abandoned`` slices with the same transactions are deleted.
    Raises ``TargetProblem`` and ``StoreProblem``, and keeps finished files to continue from. Raises
    ``Cancelled`` and deletes its files, unless ``keep``.
    """
    return _ExportRun(part, target, dsn, write_parts, progress, cancelled, keep, abandoned,
                      stretches_of).run()  # fmt: skip


@dataclass(slots=True)
class _ExportRun:
    part: Slice
    target: Target
    dsn: str | None
    write_parts: WriteParts | None
    progress: Callable[[Progress], None]
    cancelled: Callable[[], bool]
    keep: bool
    abandoned: chains.Abandoned
    stretches_of: StretchesOf
    #: True if an earlier run marked the slice as unfinished.
    marked: bool = False
    rows: int = 0
    began: float = field(default_factory=time.monotonic)
    #: Rows in the finished files of an earlier run.
    kept_rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> manifests.Manifest:
        """Write the slice, and return its manifest."""
        if (whole := self._whole()) is not None:
            return whole
        self.marked = manifests.is_unfinished(self.target, self.part)
        try:
            placed, gaps, done = self._prepare()
        except BaseException:
            if not self.marked:
                self._unmark()
            raise
        plan = placed.plan
        # Exports that run at the same time see by the schema which root this one fills.
        publish(placed, self.target, placed.opened)
        try:
            self._write(plan, done)
        except Cancelled:
            if not self.keep:
                paths = {one.path for one in plan.parts}
                chains.delete_slice(self.target, self.part, paths)
            raise
        publish(placed, self.target, placed.schemas)
        files = [(one, done[one.path]) for one in plan.parts]
        manifest = manifests.Manifest.of(self.part, plan.tables, plan.folders, files, gaps)
        manifests.seal(self.target, self.part, manifest)
        return manifest

    def _prepare(self) -> tuple[Placed, list[dict[str, Any]], dict[str, WrittenFile]]:
        """Plan the slice; return the plan, its gaps and the files that are finished already.

        Deletes what is in the way.
        """
        begun = self.marked or manifests.read_manifest(self.target, self.part) is not None
        gone = chains.begin(self.target, self.part, self.abandoned)
        # Writing may take hours, in which an idle session ends. Transactions that the store deletes
        # after their files were written are no gaps.
        with connect(self.dsn) as connection, connect(self.dsn) as beside:
            plan = ExportPlan.of(connection, self.part, beside, stretches_of=self.stretches_of)
            gaps = manifests.gaps_of(connection, self.part)
        own = chains.make_room(self.target, plan, gone, self.abandoned, begun=begun)
        placed = place(plan, self.target)
        done = self._kept(placed)
        self._delete_replaced(placed.plan, own)
        return placed, gaps, done

    def _unmark(self) -> None:
        """Delete this run's mark, as nothing was written under it."""
        with suppress(TargetProblem):
            if manifests.is_unfinished(self.target, self.part):
                manifests.seal(self.target, self.part, None)
                self.target.delete_empty(f"{incarnation_folder(self.part)}/{MANIFESTS}")

    def _whole(self) -> manifests.Manifest | None:
        """Return the manifest if every file that it lists is there in its size."""
        manifest = manifests.read_manifest(self.target, self.part)
        if manifest is None or manifests.is_unfinished(self.target, self.part):
            return None
        sizes = {each.path: each.bytes for each in self.target.files(manifest.folder, deep=True)}
        if any(sizes.get(each["path"]) != each["bytes"] for each in manifest.files):
            return None
        manifests.seal(self.target, self.part, manifest)
        return manifest

    def _delete_replaced(self, plan: ExportPlan, own: set[str]) -> None:
        """Delete files of an earlier run that are not in the plan: others have their rows.

        A plan has other ranges and names after the store deleted transactions. Raises
        ``TargetProblem`` for files of a slice that was whole, since they may be the only copy.
        """
        replaced = own - {one.path for one in plan.parts}
        if replaced and not (self.marked or self.abandoned(slice_name(self.part))):
            raise TargetProblem(
                "this slice stands there, but lacks a file, and would have other files now: the "
                "store deleted some of its transactions, or it was compacted",
                "restore that file, take the slice back, or export into another folder",
            )
        datasets = {one.dataset for one in plan.parts}
        chains.delete_files(self.target, self.part, replaced, keep=datasets)

    def _kept(self, placed: Placed) -> dict[str, WrittenFile]:
        """Return the finished files; delete half-written ones, refuse another slice's."""
        plan = placed.plan
        writer = PartWriter(self.part, plan.tables, self.target)
        chains.delete_staged(self.target, self.part, {slice_name(self.part)})
        names = {one.path for one in plan.parts}
        there, ours = set(), names | manifests.own_paths(self.part)
        if self.marked:
            # An earlier run may have been killed while it wrote a schema. Other slices write the
            # same schemas, so what they are writing now is left alone otherwise.
            ours |= placed.schemas.keys()
        for found in self.target.files(incarnation_folder(self.part), deep=True):
            if found.path in names:
                there.add(found.path)
            elif chains.path_of_half(found.path) in ours:
                self.target.delete(found.path)
        done: dict[str, WrittenFile] = {}
        for one in plan.parts:
            if one.path not in there:
                continue
            if (kept := writer.finished(one)) is not None:
                done[one.path] = kept
                continue
            mine = writer.is_ours(one)
            if mine is False or (mine is None and not self.marked):
                raise TargetProblem(
                    "files of the same names stand there that this slice did not write",
                    "export into another folder",
                )
        self.rows = self.kept_rows = sum(each.changes for each in done.values())
        return done

    def _write(self, plan: ExportPlan, done: dict[str, WrittenFile]) -> None:
        """Write the missing files, and add each to ``done``."""
        writer = PartWriter(self.part, plan.tables, self.target)
        missing = [one for one in plan.parts if one.path not in done]
        self._tell(plan, done)
        if not missing:
            return
        finished = self._finished(writer, missing)
        try:
            for each in finished:
                if each is not None:
                    done[each.path] = each
                self._tell(plan, done)
        except BaseException:
            # End the writers now; an error of theirs must not replace the one that ends the export.
            with suppress(Exception):
                finished.close()
            raise
        if self.cancelled():
            raise Cancelled  # while the last files were written

    def _finished(
        self, writer: PartWriter, missing: list[FilePart]
    ) -> Generator[WrittenFile | None]:
        """Yield each file when it is finished, and None when progress may be reported."""
        if self.write_parts is None:
            yield from self._in_this_process(writer, missing)
        else:
            yield from self.write_parts(writer, missing, self.dsn, self._wrote, self.cancelled)

    def _in_this_process(
        self, writer: PartWriter, missing: list[FilePart]
    ) -> Iterator[WrittenFile | None]:
        """Write the files in threads, each with a session of its own."""
        stopped = threading.Event()
        with ExitStack() as stack:
            workers = min(_SIDE_BY_SIDE, len(missing))
            sessions = [stack.enter_context(connect(self.dsn)) for _ in range(workers)]
            pool = stack.enter_context(ThreadPoolExecutor(workers))

            def write(one: FilePart) -> WrittenFile:
                with self._lock:
                    session = sessions.pop()
                try:
                    return writer.write(
                        session,
                        one,
                        wrote=self._wrote,
                        cancelled=lambda: stopped.is_set() or self.cancelled(),
                    )
                except psycopg.Error as error:
                    raise lost_store(error) from error
                finally:
                    with self._lock:
                        sessions.append(session)

            waiting: set[Future[WrittenFile]] = {pool.submit(write, one) for one in missing}
            try:
                while waiting:
                    ended, waiting = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
                    yield from (each.result() for each in ended)
                    yield None
            finally:
                stopped.set()
                for each in waiting:
                    each.cancel()

    def _wrote(self, changes: int) -> None:
        with self._lock:
            self.rows += changes

    def _tell(self, plan: ExportPlan, done: dict[str, WrittenFile]) -> None:
        seconds = time.monotonic() - self.began
        total, new = plan.changes, self.rows - self.kept_rows
        left = (total - self.rows) * seconds / new if new > 0 else None
        size = sum(each.bytes for each in done.values())
        reached = Progress(rows=self.rows, total_rows=total, files=len(done),
                           total_files=len(plan.parts), bytes=size, seconds_left=left)  # fmt: skip
        self.progress(reached)


def lost_store(error: psycopg.Error) -> StoreProblem:
    """Return the problem for an error while reading, without its text, which may hold values."""
    code = f" ({error.sqlstate})" if error.sqlstate else ""
    return StoreProblem(
        f"the store stopped answering while it was read{code}",
        "look at its log, then run it again: finished files are kept",
    )
