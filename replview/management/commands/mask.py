"""``replview mask add|list|preview|remove``: rules that mask columns."""

from typing import Any

from django.core.management.base import CommandError

from replview.access import mask_making
from replview.management.instance import Actions, InstanceCommand
from replview.store.models import MaskRule
from replview.store.write.access_record import command_user


class Command(Actions, InstanceCommand):
    """The command that adds, previews, lists and removes mask rules."""

    help = (
        "Add, preview, list and remove rules that mask columns. A rule masks at ingest (the value "
        "is never stored) or on display (it is stored, and shown to nobody)."
    )
    examples = (
        "replview mask preview --table public.customers --column email",
        "replview mask add --table public.customers --column email",
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of the actions on mask rules."""
        add = actions.add_parser("add", help="add a rule, which holds at once")
        preview = actions.add_parser(
            "preview", help="show the recorded columns that a rule would match"
        )
        for action in (add, preview):
            action.add_argument("--table", default="*", metavar="PATTERN", help="schema.table; * "
                                "matches anything (default: every table)")  # fmt: skip
            action.add_argument("--column", default="*", metavar="PATTERN",
                                help="(default: every column)")  # fmt: skip
            action.add_argument("--type", default="", metavar="PATTERN", help="as format_type() "
                                "writes it, for example 'json*' (default: any)")  # fmt: skip
            action.add_argument(
                "--source", default="", metavar="NAME", help="(default: every source)"
            )
            action.add_argument("--when", choices=MaskRule.When.values,
                                default=MaskRule.When.INGEST, help="(default: ingest)")  # fmt: skip
        add.add_argument("--note", default="", help="why")
        listing = actions.add_parser("list", help="list all rules with the columns they match")
        for action in (listing, preview):
            action.add_argument("--format", choices=["text", "json"], default="text")
        remove = actions.add_parser("remove", help="remove a rule; values masked at ingest do "
                                    "not come back")  # fmt: skip
        remove.add_argument("number", type=int, metavar="NUMBER")

    def _add(self, options: dict[str, Any]) -> None:
        rule = mask_making.add_rule(_typed_rule(options))
        self.say(f"mask rule {rule.pk}: {rule}")
        if rule.when == MaskRule.When.INGEST:
            self.stderr.write(
                "The rule holds from the next stored transaction on. Values stored before stay in "
                "the store and are shown to nobody."
            )

    def _preview(self, options: dict[str, Any]) -> None:
        lines = _match_facts(_typed_rule(options))
        self.say_facts(lines, options["format"], "the rule matches no recorded column")

    def _list(self, options: dict[str, Any]) -> None:
        facts = [_facts(rule) for rule in mask_making.all_rules()]
        empty = "no mask rules: replview mask add --table public.customers --column email"
        self.say_facts(facts, options["format"], empty)

    def _remove(self, options: dict[str, Any]) -> None:
        rule = MaskRule.objects.filter(pk=options["number"]).first()
        if rule is None:
            raise CommandError(
                f"there is no mask rule {options['number']}: see 'replview mask list'"
            )
        rule_text = str(rule)
        mask_making.remove_rule(rule)
        self.say(f"mask rule removed: {rule_text}")


def _typed_rule(options: dict[str, Any]) -> MaskRule:
    return mask_making.unsaved_rule(
        source=options["source"],
        table=options["table"],
        column=options["column"],
        type_name=options["type"],
        when=options["when"],
        note=options.get("note", ""),
        by=f"command line ({command_user()})",
    )


def _match_facts(rule: MaskRule) -> list[dict[str, str]]:
    return [
        {
            "slot": f"{match.source}/{match.slot}",
            "table": f"{match.schema}.{match.table}",
            "versions": match.version_words,
            "columns": ", ".join(match.columns),
            "keys": ", ".join(match.keys),
        }
        for match in mask_making.matched_by(mask_making.as_rule(rule))
    ]


def _facts(rule: MaskRule) -> dict[str, object]:
    matches = mask_making.matched_by(mask_making.as_rule(rule))
    return {
        "number": rule.pk,
        "source": rule.source.name if rule.source else "",
        "table": rule.table_pattern,
        "column": rule.column_pattern,
        "type": rule.type_pattern,
        "when": rule.when,
        "matches": f"{sum(len(m.columns) for m in matches)} columns of {len(matches)} tables",
        "by": rule.created_by,
        "note": rule.note,
    }
