"""A scrape, read as Prometheus reads it."""

from collections.abc import Mapping

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

#: A family's samples by their labels.
Samples = Mapping[frozenset[tuple[str, str]], float]


class Scrape:
    """The metrics of one request to ``/metrics``."""

    def __init__(self, client: Client) -> None:
        answer = client.get("/metrics")
        assert answer.status_code == 200, answer.content
        self.text = answer.content.decode()
        self.families = list(text_string_to_metric_families(self.text))
        self.names = {line.split()[2] for line in self.text.split("\n") if line[:7] == "# TYPE "}

    def value(self, name: str, **labels: str) -> float | None:
        """The only sample with these labels (among others); None: there is none."""
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) <= 1, found
        return found[0] if found else None
