"""The shipped files for Prometheus and Grafana match the metrics at ``/metrics``."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml
from django.core.management import call_command
from django.test import Client

from replview.features.alerts.built_in import BUILT_IN
from replview.management.commands.monitoring import FILES, text_of
from tests.features.monitoring.scrapes import Scrape

PROMTOOL = shutil.which("promtool") or ""
#: The variables that Grafana replaces before Prometheus sees an expression.
VARIABLES = {"$__rate_interval": "1m", "$source": ".*", "$slot": ".*"}


def rules() -> list[dict]:
    """The alerting rules."""
    return [rule for group in yaml.safe_load(text_of("prometheus-rules"))["groups"]
            for rule in group["rules"]]  # fmt: skip


def dashboard() -> dict:
    """Grafana's document."""
    return json.loads(text_of("grafana"))


def expressions() -> Iterator[str]:
    """Every expression that Prometheus will be asked."""
    for rule in rules():
        yield rule["expr"]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"]
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            yield query


def test_every_expression_is_promql() -> None:
    found = list(expressions())

    assert len(found) > 50
    for expression in found:
        promql_parser.parse(expression)


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (Debian's prometheus)")
def test_the_rules_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(text_of("prometheus-rules"))
    cases = Path(__file__).with_name("rules_test.yml").read_text()
    (tmp_path / "cases.yml").write_text(cases.replace("RULES", "rules.yml"))

    ended = subprocess.run(
        [PROMTOOL, "test", "rules", tmp_path / "cases.yml"], capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (Debian's prometheus)")
def test_promtool_has_nothing_to_say_of_a_scrape(public: Client) -> None:
    ended = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=Scrape(public).text, capture_output=True, text=True
    )

    assert ended.stdout + ended.stderr == ""


def test_every_name_is_in_a_scrape(public: Client) -> None:
    known = Scrape(public).names
    variables = json.dumps(dashboard()["templating"])
    asked = set(re.findall(r"replview_\w+", " ".join([*expressions(), variables])))

    assert {re.sub("_(bucket|count|sum)$", "", name) for name in asked} - known == set()


def test_the_dashboard_shows_every_kind_of_thing_there_is() -> None:
    asked = " ".join(expressions())

    for part in ("slot", "receiver", "source", "alerts", "store", "celery", "web"):
        assert f"replview_{part}_" in asked


def test_the_dashboard_is_one_grafana_reads() -> None:
    document = dashboard()
    panels = document["panels"]

    assert document["uid"] == "replview"
    assert document["schemaVersion"] >= 39
    assert document["id"] is None
    assert [each["name"] for each in document["templating"]["list"]] == [
        "datasource", "source", "slot",
    ]  # fmt: skip
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)), "panels overlap"


def test_every_rule_says_whose_and_how_urgent() -> None:
    names = [rule["alert"] for rule in rules()]

    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


#: Kinds of built-in rules → the shipped rule that stands for them. Schema changes, poison changes,
#: the store's budget, failover and lakes have no figure of their own: one rule passes those on.
COUNTERPARTS = {
    "slot_lost": "ReplviewSlotLost", "time_to_loss": "ReplviewSlotLossWithinHour",
    "retained_share": "ReplviewRetainedWalNearLimit", "retained_wal": "ReplviewMuchRetainedWal",
    "lag": "ReplviewLag", "receiver_down": "ReplviewReceiverDown",
    "slot_inactive": "ReplviewSlotInactive", "prepared_age": "ReplviewPreparedTransactionOpen",
    "long_transaction": "ReplviewLongTransaction", "schema_change": "ReplviewAlert",
    "source_unreachable": "ReplviewSourceUnreachable", "poison_change": "ReplviewAlert",
    "store_size": "ReplviewAlert", "unsafe_failover": "ReplviewAlert",
    "published_tables": "ReplviewAlert", "lake_lag": "ReplviewAlert",
    "lake_failed": "ReplviewAlert",
}  # fmt: skip


def test_every_rule_of_our_own_has_its_counterpart() -> None:
    shipped = {rule["alert"] for rule in rules()}

    for rule in BUILT_IN:
        assert COUNTERPARTS[rule["kind"]] in shipped


@pytest.mark.parametrize("what", FILES)
def test_the_command_prints_the_file_alone(what: str, capsys) -> None:
    call_command("monitoring", what)

    assert capsys.readouterr().out == text_of(what)


def test_the_scrape_configuration_is_prometheus_own(public: Client) -> None:
    job = yaml.safe_load(text_of("scrape-config"))["scrape_configs"][0]

    assert public.get(job["metrics_path"]).status_code == 200
    assert job["authorization"]["type"] == "Bearer"
