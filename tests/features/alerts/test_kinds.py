"""Every alert kind is complete, so that pages, messages and the store can ask it."""

import pytest

from replview.features.alerts.built_in import BUILT_IN
from replview.features.alerts.kinds import KINDS
from replview.features.alerts.kinds.base import AlertKind
from replview.store.models import AlertRule


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_has_its_texts_and_a_built_in_rule(kind: AlertKind) -> None:
    assert kind.word
    assert kind.about.endswith(".")
    assert kind.remedy.endswith(".")
    assert kind.built_in
    assert len(kind.key) <= AlertRule._meta.get_field("kind").max_length
    assert ("threshold" in kind.form_fields()) == (kind.built_in[0].threshold is not None)


def test_no_two_kinds_and_no_two_built_in_rules_have_the_same_key() -> None:
    assert len({type(kind) for kind in KINDS.values()}) == len(KINDS)
    assert len({values["key"] for values in BUILT_IN}) == len(BUILT_IN)
