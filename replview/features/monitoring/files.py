"""What Prometheus and Grafana are given: files, written against the names of ``/metrics``."""

from pathlib import Path

#: As the command calls them, and the file each is.
FILES = {
    "grafana": "grafana.json",
    "prometheus-rules": "prometheus-rules.yml",
    "scrape-config": "scrape-config.yml",
}


def text_of(what: str) -> str:
    """One of the files."""
    return (Path(__file__).parent / "provisioning" / FILES[what]).read_text()
