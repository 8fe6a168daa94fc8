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
        "Seal every stored password, address and secret anew with REPLVIEW_SECRET_KEY. First set "
        "the new key, and the former one in REPLVIEW_SECRET_KEYS_OLD, wherever replview and its "
        "workers run; afterwards leave the former one out."
    )

    def add_actions(self, actions: Any) -> None:
        """Add the parser of ``rotate``."""
        actions.add_parser("rotate", help="seal all of them with the present key")

    def _rotate(self, options: dict[str, Any]) -> None:
        """Encrypt all secrets anew; report and keep the ones that no key decrypts."""
        count, lost = rotate_all()
        note("changed_settings", subject="secrets", details={"act": "rotate", "secrets": count})
        self.say(f"{plural(count, 'secret')} sealed with the present key")
        if lost:
            raise CommandError(
                f"no key opens {', '.join(lost)}: name the key each was sealed with in "
                "REPLVIEW_SECRET_KEYS_OLD, or give it anew (replview source credentials)"
            )
