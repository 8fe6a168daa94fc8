"""``replview spark JOB …``: run a history job over exported changes in a separate process."""

import datetime as dt
import sys
from argparse import REMAINDER, ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from replview.jobs.following import scratch_folder
from replview.management.instance import PlainCommand
from replview.spark.exit_statuses import GAP, WRONG_USE
from replview.spark.processes import JobProcess
from replview.store.connecting import store_conninfo


class Command(PlainCommand):
    """The command that runs a history job."""

    help = (
        "Run a history job over an export or a slot's record, by DuckDB or Spark. The jobs are "
        "as-of, row-versions, churn, hot-rows, transaction-sizes, transaction-rates, "
        "who-changed-what and schema-versions. 'replview spark JOB --help' shows a job's options."
    )
    examples = (
        "replview spark as-of --root exports/week --table public.orders",
        "replview spark churn --root exports/week --table public.orders --every day",
        "replview spark who-changed-what --slot shop/replview --table public.orders",
    )

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command; pass all words after ``spark``, including ``--help``, to the job."""
        arguments = argv[2:]
        if not arguments or arguments[0] in ("-h", "--help"):
            self.print_help(argv[0], argv[1])
            sys.exit(0 if arguments else WRONG_USE)
        try:
            self.handle(job=arguments)
        except CommandError as error:
            self.stderr.write(f"replview: {error}")
            sys.exit(error.returncode)
        except KeyboardInterrupt:
            self.stderr.write("replview: stopped")
            sys.exit(130)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the job and its options as one list of words."""
        parser.add_argument("job", nargs=REMAINDER, metavar="JOB …")

    def handle(self, *_: str, **options: Any) -> None:
        """Run the job in a process of its own, and exit with its status."""
        arguments = list(options["job"])
        if arguments[0] == "lake":
            raise CommandError("a lake is fed by 'replview lake run NAME'", returncode=WRONG_USE)
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S-%f")
        log = Path(settings.DATA_DIR) / "spark-logs" / f"{arguments[0]}-{stamp}.log"
        try:
            # A job over a slot's record reads this instance's store.
            store = {"REPLVIEW_STORE_URL": store_conninfo()} if settings.STORE_URL else {}
            of_slot = any(each.partition("=")[0] == "--slot" for each in arguments)
            job = JobProcess.start(
                arguments, log=log, scratch=scratch_folder(), output=None,
                environment=store if of_slot else {},
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise CommandError(f"the job cannot be started: {error}") from None
        try:
            status = job.wait()
        finally:
            job.end()
        if status == WRONG_USE:
            self.stderr.write(log.read_text(errors="replace").rstrip())
            log.unlink()
        if status in (GAP, WRONG_USE):
            sys.exit(status)
        if status:
            raise CommandError(f"{job.problem()} (its log: {log})", returncode=1)
