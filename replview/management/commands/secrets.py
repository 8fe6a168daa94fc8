"""``replview secrets rotate``: encrypt every stored secret anew with the present key."""

from typing import Any

from django.core.management.base import CommandError

from replview.management.instance import Actions, InstanceCommand
from replview.store.secrets import rotate_all
from replview.store.write.access_record import note
from replview.text.formats import plural


class Command(Actions, InstanceCommand):
    """The command that encrypts stored secrets with a new key."""

    help = (
        "Encrypt all stored secrets again with a new key. First set the new key as "
        "REPLVIEW_SECRET_KEY and the old one as REPLVIEW_SECRET_KEYS_OLD, wherever replview and "
        "its workers run. Remove the old one afterwards."
    )
    examples = ("replview secrets rotate",)

    def add_actions(self, actions: Any) -> None:
        """Add the parser of ``rotate``."""
        actions.add_parser("rotate", help="encrypt all secrets again with REPLVIEW_SECRET_KEY")

    def _rotate(self, options: dict[str, Any]) -> None:
        """Encrypt all secrets anew; report and keep the ones that no key decrypts."""
        count, lost = rotate_all()
        note("changed_settings", subject="secrets", details={"act": "rotate", "secrets": count})
        self.say(f"{plural(count, 'secret')} encrypted with REPLVIEW_SECRET_KEY")
        if lost:
            raise CommandError(
                f"no key decrypts {', '.join(lost)}: add the key each was encrypted with to "
                "REPLVIEW_SECRET_KEYS_OLD, or set it again (replview source credentials)"
            )
