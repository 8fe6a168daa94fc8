"""The pages of rules and webhooks: change, one slot's own, try before saving, tell a webhook."""

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from replview.access.rights import Role, set_role
from replview.features.alerts.built_in import BUILT_IN, ensure
from replview.features.alerts.rule_form import RuleForm
from replview.features.alerts.rule_views import (
    build_rule_page,
    build_trial_page,
    read_rules_page,
)
from replview.features.alerts.trial_chart import TrialView
from replview.features.alerts.webhook_views import read_webhooks_page
from replview.store.models import Alert, AlertRule, Delivery, SlotSample, Source, Webhook
from replview.store.write.partitions import ensure_partitions
from tests.features.alerts.conftest import page
from tests.support.alerted_source import GB, Sampled
from tests.support.page_elements import spaced
from tests.support.webhook_server import make_webhook


def sent(rule: AlertRule, **changed: str) -> dict[str, str]:
    """A form as a browser sends it."""
    return {"rule": str(rule.pk or ""), "kind": rule.kind, "name": rule.name, "enabled": "on",
            "severity": rule.severity, "threshold": "60 s", "clear_threshold": "30 s",
            "hold": "0 s", "clear": "4 s", "tables": "", **changed}  # fmt: skip


@pytest.fixture
def lag_rule(sampled: Sampled) -> AlertRule:
    ensure()
    return AlertRule.objects.get(key="lag_look")


def test_all_rules_are_listed_in_words(db) -> None:
    ensure()
    shown = read_rules_page()
    assert shown.on == len(BUILT_IN)
    names = [row.rule.name for row in shown.rows]
    assert names.index("Slot lost") < names.index("Unsafe failover"), "in their order"
    when = [row.when.replace("\xa0", " ") for row in shown.rows]
    assert "from 50 % on, over below 45 %" in when
    assert "below 1 h, over from 1 h 30 min" in when


def test_the_list_of_rules_renders(signed_in, sampled: Sampled) -> None:
    AlertRule.objects.create(kind="lag", name="<b>", severity="look", threshold=1)
    shown = page(signed_in, "/alerts/rules/")
    assert f"{len(BUILT_IN) + 1} rules on." in shown
    assert shown.index(">Slot lost</a>") < shown.index(">Unsafe failover</a>")
    assert "from 50 % on, over below 45 %" in shown.replace("\xa0", " ")
    assert ">&lt;b&gt;</a>" in shown


def sent_by(form: RuleForm) -> dict[str, object]:
    """Return the data that a browser sends for an untouched form."""
    values = {each.name: each.value() for each in form}
    return {name: value for name, value in values.items() if value not in (None, False)}


def test_every_rule_has_a_page_and_comes_back_as_it_was(signed_in, sampled: Sampled) -> None:
    ensure()
    before = {row["id"]: row for row in AlertRule.objects.values()}
    for rule in AlertRule.objects.all():
        shown = signed_in.get(f"/alerts/rules/{rule.pk}/")
        form = shown.context["page"].form
        answer = signed_in.post(f"/alerts/rules/{rule.pk}/", {**sent_by(form), "rule": rule.pk})
        assert answer.status_code == 302, form.errors
        page(signed_in, f"/alerts/rules/new/?kind={rule.kind}")
    for row in AlertRule.objects.values():
        for name in ("threshold", "clear_threshold", "hold_seconds", "clear_seconds", "severity"):
            assert row[name] == before[row["id"]][name]
        assert row["changed_by"] == "alice"


def test_the_page_of_a_rule_renders(signed_in, sampled: Sampled, lag_rule: AlertRule) -> None:
    shown = page(signed_in, f"/alerts/rules/new/?overrides={lag_rule.pk}&slot={sampled.watched.pk}")
    assert "Lag, of shop/replview alone" in shown
    own = AlertRule.objects.create(
        kind="lag", name="<b>", severity="look", threshold=90, overrides=lag_rule,
        slot=sampled.watched,
    )  # fmt: skip
    shown = page(signed_in, f"/alerts/rules/{lag_rule.pk}/")
    assert f'href="/alerts/rules/{own.pk}/">shop/replview</a>' in shown
    assert ">Reset to default</button>" in shown
    assert 'value="delete"' not in shown
    shown = page(signed_in, f"/alerts/rules/{own.pk}/")
    assert "<b>&lt;b&gt;.</b>" in shown
    assert 'value="90 s"' in shown
    assert 'value="delete"' in shown
    sent_wrong = sent(own, threshold="<i>", severity="x")
    shown = signed_in.post(f"/alerts/rules/{own.pk}/", sent_wrong).content.decode()
    assert "Write a length of time with its unit" in shown
    assert "Choose a severity: now or look." in shown
    assert 'aria-describedby="e-severity"' in shown
    assert 'value="&lt;i&gt;"' in shown


def test_a_rule_is_changed_in_peoples_units(signed_in, lag_rule: AlertRule) -> None:
    url = f"/alerts/rules/{lag_rule.pk}/"
    answer = signed_in.post(url, sent(lag_rule, threshold="2.5 min", clear_threshold="", hold="9"))
    assert answer.status_code == 422
    (error,) = answer.context["page"].form.errors["hold"]
    assert error.startswith("Write a length of time with its unit")
    signed_in.post(url, sent(lag_rule, threshold="2.5 min", clear_threshold="", hold="9 s"))
    lag_rule.refresh_from_db()
    assert (lag_rule.threshold, lag_rule.clear_threshold, lag_rule.hold_seconds) == (150, None, 9)
    signed_in.post(f"{url}change/", {"action": "off"})
    signed_in.post(f"{url}change/", {"action": "delete"})
    lag_rule.refresh_from_db()
    assert not lag_rule.enabled, "and a built-in one is not deleted"
    signed_in.post(f"{url}change/", {"action": "reset"})
    lag_rule.refresh_from_db()
    assert (lag_rule.threshold, lag_rule.hold_seconds) == (60, 0)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name": " "}, "Give it a name"),
        ({"threshold": ""}, "Write a length of time"),
        ({"threshold": "ten"}, "Write a length of time"),
        ({"threshold": "-5 s"}, "Write a length of time"),
        ({"threshold": "9" * 40 + " d"}, "Write a length of time"),
        ({"clear_threshold": "2 min"}, "At most the value at which it fires"),
        ({"severity": "x"}, "Choose a severity"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(
    signed_in, lag_rule: AlertRule, changed: dict[str, str], error: str
) -> None:
    answer = signed_in.post(f"/alerts/rules/{lag_rule.pk}/", sent(lag_rule, **changed))
    assert answer.status_code == 422
    (name,) = changed
    (shown,) = answer.context["page"].form.errors[name]
    assert shown.startswith(error)
    lag_rule.refresh_from_db()
    assert lag_rule.threshold == 60


def test_one_slot_gets_a_rule_of_its_own(signed_in, sampled: Sampled, lag_rule: AlertRule) -> None:
    before = build_rule_page(RuleForm(lag_rule))
    assert (before.own, before.slots, before.came) == ([], [sampled.watched], True)
    fields = {"overrides": str(lag_rule.pk), "slot": str(sampled.watched.pk)}
    for _ in range(2):  # a second time it is the same one
        form = sent(lag_rule, threshold="5 min", **fields) | {"rule": ""}
        assert signed_in.post("/alerts/rules/new/", form).status_code == 302
    own = AlertRule.objects.get(overrides=lag_rule)
    assert (own.threshold, own.slot, own.built_in, own.key) == (300, sampled.watched, False, "")
    after = build_rule_page(RuleForm(lag_rule))
    assert (after.own, after.slots) == ([own], [])
    of_own = build_rule_page(RuleForm(own))
    assert (of_own.own, of_own.slots, of_own.came) == ([], [], False)
    signed_in.post(f"/alerts/rules/{own.pk}/change/", {"action": "delete"})
    assert not AlertRule.objects.filter(overrides=lag_rule).exists()
    page(signed_in, "/alerts/rules/new/?kind=x", 404)
    poison = AlertRule.objects.get(key="prepared")
    page(signed_in, f"/alerts/rules/new/?overrides={poison.pk}&slot={sampled.watched.pk}", 404)


@pytest.fixture
def past_hour(sampled: Sampled) -> dt.datetime:
    """Samples of an hour: lag rises to 100 s twice; retained WAL to 7 GB once."""
    now = timezone.now()
    ensure_partitions(connection.connection, (now - dt.timedelta(days=1)).date(), now.date())
    rows = []
    for step in range(720):
        at = now - dt.timedelta(seconds=5 * (719 - step))
        lag = 100.0 if step in range(100, 130) or step in range(400, 412) else 1.0
        retained = 7 * GB if 500 <= step < 560 else GB
        rows.append(
            SlotSample(slot_id=sampled.slot.pk, sampled_at=at, replay_lag_seconds=lag, active=True,
                       retained_wal_bytes=retained, unconfirmed_wal_bytes=0, wal_status="reserved")
        )  # fmt: skip
    SlotSample.objects.bulk_create(rows)
    return now


def test_a_rule_is_tried_before_it_is_saved(past_hour, lag_rule: AlertRule) -> None:
    def tried(**changed: str) -> TrialView:
        rule = AlertRule.objects.get(pk=lag_rule.pk)
        view = build_trial_page(RuleForm(rule, sent(rule, **changed))).view
        assert view is not None
        return view

    view = tried()
    assert view.sentence.startswith("In the past hour it would have fired 2 times on 1 subject")
    assert [line.episode.name for line in view.lines] == ["shop/replview"] * 2
    assert "2 min 35 s" in [line.duration.replace("\xa0", " ") for line in view.lines]
    assert view.drawing is not None
    assert view.drawing.threshold_y is not None
    assert len(view.drawing.spans) == 2
    assert "fired 1 time " in tried(hold="90 s").sentence
    assert "it would not have fired" in tried(threshold="2 min", clear_threshold="").sentence
    refused = build_trial_page(RuleForm(lag_rule, sent(lag_rule, threshold="x")))
    (error,) = refused.errors
    assert error.startswith("Write a length of time")
    assert refused.view is None
    lag_rule.refresh_from_db()
    assert lag_rule.threshold == 60, "nothing was saved"


def test_a_trial_renders(signed_in, past_hour, lag_rule: AlertRule) -> None:
    Source.objects.update(name="<b>")
    answer = signed_in.post("/alerts/rules/try/", sent(lag_rule))
    assert answer.status_code == 200
    shown = " ".join(answer.content.decode().split())
    assert "it would have fired 2 times on 1 subject looked at" in shown
    assert shown.count('<td class="mono">&lt;b&gt;/replview</td>') == 2
    assert "2 min 35 s" in shown
    assert "trial-threshold" in shown
    answer = signed_in.post("/alerts/rules/try/", sent(lag_rule, threshold="x"))
    assert answer.status_code == 200
    shown = " ".join(answer.content.decode().split())
    assert "Not tried: Write a length of time" in shown
    lag_rule.refresh_from_db()
    assert lag_rule.threshold == 60, "nothing was saved"


def test_every_kind_can_be_tried_or_says_why_not(signed_in, past_hour, sampled: Sampled) -> None:
    ensure()
    found = {}
    for rule in AlertRule.objects.all():
        form = signed_in.get(f"/alerts/rules/{rule.pk}/").context["page"].form
        fields = {**sent_by(form), "rule": rule.pk, "kind": rule.kind}
        answer = signed_in.post("/alerts/rules/try/", fields)
        found[rule.key] = answer.context["page"].view.sentence
    assert "would have fired 1 time" in found["share_look"]
    assert "it would not have fired" in found["slot_lost"]
    assert "keeps no samples" in found["store_size"]
    assert "There are no samples of the past hour" in found["prepared"]


@pytest.fixture
def admin(signed_in: Client) -> Client:
    """Return the client of a signed-in admin."""
    set_role(User.objects.get(username="alice"), Role.ADMIN)
    return signed_in


def test_webhooks_are_added_tested_and_deleted(admin, db) -> None:
    signed_in = admin
    url = "https://hooks.example.com/services/T0/very-secret"
    answer = signed_in.post("/alerts/webhooks/", {"name": "ops", "url": url, "format": "slack"})
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"].count("no-store")
    made = answer.context["page"]
    webhook = Webhook.objects.get()
    assert (made.made, made.form.is_bound) == (webhook, False)
    assert made.secret in answer.content.decode()
    assert made.secret not in repr(made)
    shown = read_webhooks_page()
    assert (shown.rows, shown.secret, shown.made) == ([(webhook, None)], "", None)
    assert webhook.host == "hooks.example.com"
    signed_in.post(f"/alerts/webhooks/{webhook.pk}/", {"action": "test"})
    assert Delivery.objects.get().event == "test"
    (waiting,) = read_webhooks_page().deliveries
    assert (waiting.event, waiting.attempts, waiting.problem) == ("test", 0, "")
    signed_in.post(f"/alerts/webhooks/{webhook.pk}/", {"action": "off"})
    webhook.refresh_from_db()
    assert not webhook.enabled
    signed_in.post(f"/alerts/webhooks/{webhook.pk}/", {"action": "delete"})
    assert not Webhook.objects.exists()


def test_the_page_of_webhooks_renders(admin, db) -> None:
    shown = page(admin, "/alerts/webhooks/")
    assert "Alerts are shown only on these pages." in shown
    url = "https://hooks.example.com/services/T0/very-secret"
    webhook, secret = make_webhook("<b>ops", url)
    admin.post(f"/alerts/webhooks/{webhook.pk}/", {"action": "test"})
    shown = page(admin, "/alerts/webhooks/")
    assert "Alerts are sent to 1 webhook." in shown
    assert "&lt;b&gt;ops" in shown
    assert "<b>ops" not in shown
    assert "hooks.example.com" in shown
    assert "very-secret" not in shown
    assert secret not in shown
    assert "waits" in shown
    form = {"name": "<i>", "url": "http://10.0.0.1/x/secret", "format": "json"}
    shown = admin.post("/alerts/webhooks/", form).content.decode()
    assert "This is a private address" in shown
    assert 'value="&lt;i&gt;"' in shown


def test_a_webhook_that_cannot_be_is_said_beside_its_field(admin, db) -> None:
    form = {"name": "ops", "url": "http://10.0.0.1/x/secret", "format": "json"}
    answer = admin.post("/alerts/webhooks/", form)
    assert answer.status_code == 422
    shown = answer.context["page"]
    assert shown.form.errors["url"][0].startswith("This is a private address")
    assert shown.form["name"].value() == "ops"
    wrong = {"name": "", "url": "", "format": "xml", "secret": "s" * 201}
    refused = admin.post("/alerts/webhooks/", wrong)
    assert list(refused.context["page"].form.errors) == ["name", "format", "url", "secret"]
    assert "Choose a format: json or slack." in refused.content.decode()
    assert 'aria-describedby="e-format"' in refused.content.decode()
    assert not Webhook.objects.exists()
    assert "x/secret" not in answer.content.decode()


@pytest.fixture
def newer(sampled: Sampled) -> AlertRule:
    """A rule that a newer version made and its alert, which fires."""
    ensure()
    rule = AlertRule.objects.create(
        kind="newer", name="From later", severity="now", threshold=7, built_in=True, key="later"
    )
    Alert.objects.create(
        rule=rule, subject="store", state="firing", began_at=sampled.now, fired_at=sampled.now,
        message="The store does what nobody knows yet.", value_last=7, value_worst=9,
        rule_was={"name": "From later", "kind": "newer", "severity": "now", "threshold": 7},
        detail={"name": "The store"},
    )  # fmt: skip
    return rule


def test_a_rule_of_an_unknown_kind_is_shown_and_can_be_deleted(signed_in, newer: AlertRule) -> None:
    alert = newer.alerts.get()
    listed = page(signed_in, "/alerts/rules/")
    assert f"{len(BUILT_IN)} rules on." in listed
    row = listed.split(f'id="rule-{newer.pk}"')[1].split("</tr>")[0]
    assert ">Unknown to this version</td>" in row
    assert ">not evaluated</td>" in row
    assert "The store does what nobody knows yet." in page(signed_in, "/alerts/")
    assert "Upgrade replview, or delete the rule." in page(signed_in, f"/alerts/{alert.pk}/")
    one = page(signed_in, f"/alerts/rules/{newer.pk}/")
    assert "This version does not know its kind" in one
    assert "<code>newer</code>" in one
    assert 'id="rule-form"' not in one
    signed_in.post(f"/alerts/rules/{newer.pk}/change/", {"action": "delete"})
    assert not AlertRule.objects.filter(pk=newer.pk).exists()


def test_a_rule_of_an_unknown_kind_is_neither_tried_nor_changed(
    signed_in, newer: AlertRule
) -> None:
    answer = signed_in.post("/alerts/rules/try/", sent(newer))
    assert "This version does not know its kind" in spaced(answer.content.decode())
    assert signed_in.post(f"/alerts/rules/{newer.pk}/", sent(newer)).status_code == 422
    newer.refresh_from_db()
    assert (newer.threshold, newer.severity) == (7, "now")
    seen = signed_in.post(f"/alerts/{newer.alerts.get().pk}/seen/")
    assert seen.status_code == 302
    assert newer.alerts.get().state == "firing"
