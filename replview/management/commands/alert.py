"""``replview alert list|rules|try``: show alerts and rules, and try a rule on the past hour."""

import json
from typing import Any

from django.core.management.base import CommandError

from replview.features.alerts import built_in
from replview.features.alerts.amounts import Unit, amount_words, parse_amount
from replview.features.alerts.kinds import kind_of
from replview.features.alerts.lines import condition_words
from replview.features.alerts.trial import try_rule
from replview.management.instance import Actions, InstanceCommand, find_source
from replview.store.models import Alert, AlertRule, WatchedSlot
from replview.text.formats import NO_BREAK
from replview.text.parsing import whole_number

_MAX_ALERTS = 1000


class Command(Actions, InstanceCommand):
    """The command that lists alerts and rules, and tries a rule."""

    help = "List alerts and rules, or try a rule on the past hour."
    examples = ("replview alert list --all", "replview alert try lag --threshold 5min")

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of ``list``, ``rules`` and ``try``."""
        listing = actions.add_parser("list", help="list firing alerts, most severe first")
        listing.add_argument("--all", action="store_true", help="also cleared alerts, newest first")
        listing.add_argument(
            "--limit",
            type=int,
            default=50,
            metavar="N",
            help="at most this many cleared alerts (default: 50)",
        )
        listing.add_argument(
            "--exit-code", action="store_true", help="exit with 1 if an alert fires"
        )
        rules = actions.add_parser("rules", help="list all rules with their numbers")
        attempt = actions.add_parser(
            "try", help="show when a rule would have fired in the past hour"
        )
        attempt.add_argument("rule", metavar="RULE", help="a rule's number, or a kind such as lag")
        attempt.add_argument("--threshold", metavar="AMOUNT", help="such as 10GB, 90%%, 5min")
        attempt.add_argument(
            "--hold", metavar="TIME", help="time it must be exceeded before it fires"
        )
        attempt.add_argument(
            "--clear", metavar="TIME", help="time it must be back before it clears"
        )
        attempt.add_argument("--slot", metavar="SOURCE/NAME", help="only on this slot")
        for action in (listing, rules, attempt):
            action.add_argument("--format", choices=["text", "json"], default="text")

    def _list(self, options: dict[str, Any]) -> None:
        rows = Alert.objects.select_related("rule")
        firing = sorted(
            rows.filter(state=Alert.State.FIRING).order_by("-fired_at")[:_MAX_ALERTS],
            key=lambda alert: alert.rule_was.get("severity") != AlertRule.Severity.NOW,
        )
        alerts = firing.copy()
        if options["all"]:
            cleared = rows.filter(state=Alert.State.CLEARED, fired_at__isnull=False)
            alerts += cleared.order_by("-fired_at", "-pk")[
                : min(max(options["limit"], 0), _MAX_ALERTS)
            ]
        self.say_facts(
            [_facts(alert) for alert in alerts],
            options["format"],
            "no alert is firing",
            row=lambda fact: {key: fact[key] for key in fact if key != "rule"},
        )
        if options["exit_code"] and firing:
            raise SystemExit(1)

    def _rules(self, options: dict[str, Any]) -> None:
        built_in.ensure()
        rules = AlertRule.objects.select_related("slot__source")
        self.say_facts([_rule_facts(rule) for rule in rules], options["format"], "no rules")

    def _try(self, options: dict[str, Any]) -> None:
        rule = _changed_rule(options)
        trial, unit = try_rule(rule), kind_of(rule).unit
        if options["format"] == "json":
            self.say(json.dumps([
                {"name": episode.name, "fired_at": episode.fired_at.isoformat(),
                 "cleared_at": episode.cleared_at and episode.cleared_at.isoformat(),
                 "worst": episode.worst}
                for episode in trial.episodes
            ], indent=2))  # fmt: skip
            return
        if trial.refusal:
            raise CommandError(trial.refusal)
        count = len(trial.episodes)
        self.say(f"{rule.name}, {condition_words(rule).replace(NO_BREAK, ' ')}")
        self.say(f"in the past hour it would have fired {count} time{'' if count == 1 else 's'} "
                 f"(checked: {trial.subjects})")  # fmt: skip
        for episode in trial.episodes:
            cleared_at = episode.cleared_at
            lasted = "still firing" if cleared_at is None else "for " + amount_words(
                (cleared_at - episode.fired_at).total_seconds(), Unit.SECONDS
            )  # fmt: skip
            worst = "" if unit == Unit.YES_NO else f"  at worst {amount_words(episode.worst, unit)}"
            fired_at = f"{episode.fired_at.astimezone():%H:%M:%S}"
            self.say(f"  {fired_at}  {episode.name}  {lasted}{worst}")


def _changed_rule(options: dict[str, Any]) -> AlertRule:
    """Return the rule as changed by these options; nothing is saved."""
    built_in.ensure()
    text = options["rule"]
    rules = AlertRule.objects.all()
    if (number := whole_number(text)) is not None:
        rule = rules.filter(pk=number).first()
    else:
        kind_rules = rules.filter(kind=text.replace("-", "_"), slot=None)
        rule = kind_rules.order_by("-built_in", "pk").first()
    if rule is None:
        raise CommandError(f"there is no rule {text}; see 'replview alert rules'")
    if options["threshold"]:
        rule.threshold = parse_amount(options["threshold"], kind_of(rule).unit)
        rule.clear_threshold = None
    if options["hold"]:
        rule.hold_seconds = parse_amount(options["hold"], Unit.SECONDS)
    if options["clear"]:
        rule.clear_seconds = parse_amount(options["clear"], Unit.SECONDS)
    if options["slot"]:
        rule.slot, rule.overrides_id = _slot(options["slot"]), rule.pk
    return rule


def _slot(text: str) -> WatchedSlot:
    source, slash, name = text.rpartition("/")
    if not slash:
        raise CommandError("name the slot as SOURCE/NAME")
    slot = WatchedSlot.objects.filter(source=find_source(source), name=name).first()
    if slot is None:
        raise CommandError(f"there is no slot {name} on {source}")
    return slot


def _facts(alert: Alert) -> dict[str, str]:
    unit = kind_of(alert.rule).unit
    started_at = alert.fired_at or alert.began_at
    return {
        "state": "firing" if alert.state == Alert.State.FIRING else "over",
        "severity": str(alert.rule_was.get("severity", "")),
        "rule": str(alert.rule_was.get("name", "")),
        "since": f"{started_at.astimezone():%Y-%m-%d %H:%M:%S}",
        "value": "" if unit == Unit.YES_NO else amount_words(alert.value_last, unit),
        "worst": "" if unit == Unit.YES_NO else amount_words(alert.value_worst, unit),
        "message": alert.message,
    }


def _rule_facts(rule: AlertRule) -> dict[str, str]:
    return {
        "number": str(rule.pk),
        "state": "on" if rule.enabled else "off",
        "severity": rule.severity,
        "name": rule.name,
        "fires": condition_words(rule).replace(NO_BREAK, " "),
        "kind": rule.kind,
        "slot": f"{rule.slot.source.name}/{rule.slot.name}" if rule.slot else "",
    }
