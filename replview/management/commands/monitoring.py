"""``replview monitoring grafana|prometheus-rules|scrape-config``.

It prints configuration files for Grafana and Prometheus.
"""

from argparse import ArgumentParser
from importlib.resources import files
from typing import Any

from replview.management.instance import PlainCommand

#: Maps the command's argument to the file's name.
FILES = {
    "grafana": "grafana.json",
    "prometheus-rules": "prometheus-rules.yml",
    "scrape-config": "scrape-config.yml",
}


def text_of(what: str) -> str:
    """Return the text of the file of this name in ``FILES``."""
    return (files("replview.features.monitoring") / "provisioning" / FILES[what]).read_text()


class Command(PlainCommand):
    """The command that prints a monitoring configuration file."""

    help = (
        "Print configuration files for Grafana and Prometheus. They are a dashboard (grafana), "
        "alerting rules (prometheus-rules) and the scrape configuration for /metrics "
        "(scrape-config)."
    )
    examples = ("replview monitoring grafana > dashboard.json",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the name of the file to print."""
        parser.add_argument("what", metavar="WHAT", choices=FILES, help=", ".join(FILES))

    def handle(self, **options: Any) -> None:
        """Print only the file, so that the output can be redirected."""
        self.stdout.write(text_of(options["what"]), ending="")
