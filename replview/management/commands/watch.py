"""``replview watch DSN``: open the live page of a source on a temporary slot."""

import logging
import os
import signal
import subprocess
import sys
import threading
from argparse import ArgumentParser
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.management.base import CommandError
from django.urls import reverse

from replview.catalog.plan.carrying_out import carry_out, undo
from replview.catalog.plan.new_slot import SlotPlan
from replview.catalog.plan.slot_request import existing_publications
from replview.features.onboarding.watch import Watching
from replview.jobs.drafts import watch_name
from replview.live.publisher import publisher
from replview.management.commands.slot import (
    add_plan_options,
    parse_options,
    plan_for,
    request_from,
)
from replview.management.instance import PlainCommand, lines_of_slot, require_instance
from replview.runtime.data_folder import DataFolder
from replview.runtime.foreground import stop_on_signals
from replview.runtime.machine import StartInterrupted
from replview.runtime.narration import Narration
from replview.runtime.stack import Stack
from replview.store.dsn import resolve
from replview.store.write.access_record import Action, note

#: Passes the DSN to the watching process, so that no list of processes shows it.
_DSN_VARIABLE = "REPLVIEW_WATCH_DSN"


class Command(PlainCommand):
    """The command that watches a source."""

    help = (
        "Show the live page of a database on a TEMPORARY slot. When the watch ends, the slot is "
        "gone from the source, and what it received is deleted from the store."
    )
    examples = ("replview watch 'host=db.example dbname=shop user=replview'",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the DSN and the options of ``watch``."""
        dsn = "a libpq connection string, service=NAME or env:VARIABLE"
        parser.add_argument("dsn", metavar="DSN", help=dsn)
        port = "port of the web pages, if no replview is running yet (default: 8642)"
        parser.add_argument("--port", type=int, default=8642, help=port)
        add_plan_options(parser)
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Watch on the running instance, or start an instance for the time of the watch."""
        conninfo = resolve(options["dsn"])
        if settings.STORE_URL:
            require_instance()
            self._watch(conninfo, options)
        else:
            self._start_and_watch(conninfo, options)

    def _watch(self, conninfo: str, options: dict[str, Any]) -> None:
        """Plan the slot, ask before anything is created, receive, and undo what was created."""
        logging.getLogger("replview").setLevel(logging.WARNING)
        plan = self._plan(conninfo, options)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if threading.current_thread() is threading.main_thread():
                signal.signal(number, lambda *_: stop.set())
        created = carry_out(conninfo, plan, self.say, stop=stop)
        try:
            pgoutput = parse_options(options["option"])
            watching = Watching(conninfo, plan, pgoutput, self.say, publisher())
            with watching.registered() as slot:
                note(Action.CHANGED_SLOT, subject=str(slot), source_id=slot.source_id,
                     details={"act": "watch"})  # fmt: skip
                base = os.environ.get("REPLVIEW_URL", "http://127.0.0.1:8642/").rstrip("/")
                self.say(f"Open {base}{reverse('live')}?slot={quote(str(slot), safe='/')}")
                self.say("Ctrl-C ends the watch")
                watching.receive(slot, stop)
        finally:
            undo(conninfo, created, self.say)
        self.say("the watch has ended; its slot is gone")

    def _plan(self, conninfo: str, options: dict[str, Any]) -> SlotPlan:
        """Use existing publications; if there are none, show what would be created and ask."""
        chosen = options["tables"] or options["schema"] or options["all_tables"]
        if not options["publication"] and not chosen:
            options = {**options, "publication": list(existing_publications(conninfo))}
        request = request_from(options, watch_name(), temporary=True)
        plan = plan_for(conninfo, request)
        if not plan.statements:
            self.say(f"reading through publication {', '.join(plan.publications)}")
            return plan
        self.say("pgoutput reads through a publication. For the time of the watch this will run:")
        self.say(*lines_of_slot(plan))
        for step in plan.statements:
            self.say(f"  and at its end: {step.undo};")
        if not self.confirm("Run this?", options["yes"]):
            raise CommandError("nothing was changed; name a publication with --publication")
        return plan

    def _start_and_watch(self, conninfo: str, options: dict[str, Any]) -> None:
        """Start an instance with a data folder of its own, and watch from another process.

        This process has read its settings before there was a store; the other reads them anew.
        """
        narration = Narration()
        folder = DataFolder(settings.DATA_DIR / "watch")
        stack = Stack(folder=folder, port=options["port"], say=narration)
        with stop_on_signals(stack.stopping, narration):
            try:
                stack.start()
                narration.line(f"  Login  {stack.login[0]}   {stack.login[1]}")
                self._run_watcher(stack, conninfo, options)
            except StartInterrupted:
                pass
            finally:
                stack.stop()

    def _run_watcher(self, stack: Stack, conninfo: str, options: dict[str, Any]) -> None:
        command = [sys.executable, sys.argv[0], "watch", f"env:{_DSN_VARIABLE}"]
        for name in ("publication", "tables", "schema", "exclude_column", "mask_column", "option"):
            if options[name]:
                command += [f"--{name.replace('_', '-')}", *options[name]]
        command += ["--all-tables"] * options["all_tables"] + ["--yes"] * options["yes"]
        environment = {**os.environ, **stack.environment}
        environment |= {_DSN_VARIABLE: conninfo, "REPLVIEW_URL": stack.url}
        with subprocess.Popen(command, env=environment) as watcher:
            while watcher.poll() is None:
                if stack.stopping.wait(0.2):
                    # Unlike Ctrl-C, a SIGTERM may have reached this process alone.
                    watcher.send_signal(signal.SIGTERM)
                    watcher.wait()
        if watcher.returncode and not stack.stopping.is_set():
            raise CommandError("the watch failed (see above)")
