"""A source whose alerts are evaluated, and rules one by one."""

from typing import Any

from replview.features.alerts.evaluation import evaluate
from replview.store.models import AlertRule
from tests.support.alerted_source import START
from tests.support.alerted_source import sampled as sampled


def only(kind: str, **values: Any) -> AlertRule:
    """Create a rule of this kind and return it, all other rules switched off."""
    evaluate(START)
    AlertRule.objects.update(enabled=False)
    return AlertRule.objects.create(kind=kind, name=kind, **{"severity": "look", **values})


def page(client, url: str, status: int = 200) -> str:
    answer = client.get(url)
    assert answer.status_code == status, answer.status_code
    return " ".join(answer.content.decode().split())
