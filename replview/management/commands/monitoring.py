"""``replview monitoring grafana|prometheus-rules|scrape-config``: files for those two."""

from argparse import ArgumentParser
from importlib.resources import files
from typing import Any

from replview.management.instance import PlainCommand

#: As the command calls them, and the file each is.
FILES = {
    "grafana": "grafana.json",
    "prometheus-rules": "prometheus-rules.yml",
    "scrape-config": "scrape-config.yml",
}


def text_of(what: str) -> str:
    return (files("replview.features.monitoring") / "provisioning" / FILES[what]).read_text()


class Command(PlainCommand):
    help = (
        "Print a Grafana dashboard (grafana), Prometheus' alerting rules (prometheus-rules) or the "
        "scrape configuration (scrape-config) for /metrics."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", metavar="WHAT", choices=FILES, help=", ".join(FILES))

    def handle(self, **options: Any) -> None:
        """The file alone, so that it can be redirected."""
        self.stdout.write(text_of(options["what"]), ending="")
