"""``replview demo``: start a shop database, its replication slot and replview."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from replview.demo.shop import the_shop
from replview.management.instance import PlainCommand
from replview.runtime.data_folder import DataFolder
from replview.runtime.foreground import run_in_foreground
from replview.runtime.narration import Narration
from replview.runtime.stack import Stack


class Command(PlainCommand):
    """The command that runs the demo in the foreground."""

    help = (
        "Start a demo with a sample shop database. It starts two embedded PostgreSQL servers (the "
        "shop and the store), Redis, replview and a workload on the shop. Ctrl-C stops "
        "everything; the next start continues with the same data."
    )
    examples = ("replview demo", "replview demo --port 9000 --rate 200")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options of ``demo``."""
        option = parser.add_argument
        option("--port", type=int, default=8642, help="port of the web pages (default: 8642)")
        option(
            "--rate",
            type=float,
            default=20,
            help="transactions per second on the shop (default: 20)",
        )
        option("--no-workload", action="store_true", help="run no workload on the shop")
        option("--data", default=settings.DATA_DIR, help="data folder (default: .replview)")

    def handle(self, **options: Any) -> None:
        """Run until stopped; a problem prints one line and exits with status 1."""
        narration = Narration()
        stack = Stack(
            folder=DataFolder(options["data"]),
            port=options["port"],
            shop=the_shop(None if options["no_workload"] else options["rate"]),
            say=narration,
        )
        narration.line(f"replview demo, data in {stack.folder.path}")
        run_in_foreground(stack, check=lambda: None, welcome=lambda: _welcome(stack))
        narration.line("stopped; the data stays for the next start")


def _welcome(stack: Stack) -> None:
    """Print the address and the login, set apart from the lines before."""
    name, password = stack.login
    for line in (
        "",
        f"  Open   {stack.url}",
        f"  Login  {name}",
        f"         {password}",
        "",
        f"  Ctrl-C stops everything. Logs: {stack.folder.logs}",
        "",
    ):
        stack.say.line(line)
