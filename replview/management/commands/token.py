"""``replview token create|list|revoke``: the tokens with which programs use the API."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.utils import timezone

from replview.access.tokens import make_token
from replview.management.instance import Actions, InstanceCommand
from replview.store.models import ApiToken
from replview.store.write.access_record import note


class Command(Actions, InstanceCommand):
    """The command that manages API tokens."""

    help = "Create, list and revoke API tokens."
    examples = ("replview token create nightly-export --days 90", "replview token list")

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of ``create``, ``list`` and ``revoke``."""
        create = actions.add_parser("create", help="create a token and show it once")
        create.add_argument("name", metavar="NAME", help="a name, such as the program that uses it")
        create.add_argument(
            "--user", metavar="USER", help="the account it acts for (default: the only one)"
        )
        create.add_argument("--days", type=int, metavar="N", help="valid for N days (default: "
                            "until it is revoked)")  # fmt: skip
        create.add_argument("--scope", choices=ApiToken.Scope.values, default="read",
                            help="what it may do (default: read)")  # fmt: skip
        listing = actions.add_parser("list", help="list all tokens, without their secrets")
        listing.add_argument("--format", choices=["text", "json"], default="text")
        revoke = actions.add_parser("revoke", help="revoke a token at once")
        revoke.add_argument("name", metavar="NAME")
        revoke.add_argument("--user", metavar="USER")

    def _create(self, options: dict[str, Any]) -> None:
        name = options["name"].strip()[:100]
        if options["days"] is not None and options["days"] < 1:
            raise CommandError("--days is at least 1")
        user = _user(options["user"])
        if ApiToken.objects.filter(user_id=user.pk, name=name, revoked_at=None).exists():
            raise CommandError(
                f"{user.get_username()} has a token {name} already: 'replview token revoke {name}' "
                "first, or choose another name"
            )
        # Delete a revoked token of the same name.
        ApiToken.objects.filter(user_id=user.pk, name=name).delete()
        scope, days = options["scope"], options["days"]
        token, _ = make_token(user, name, days=days, scope=scope)
        details = {"act": "created", "scope": scope, "days": days}
        note("changed_settings", subject=f"token {name} of {user}", details=details)
        self.say(token)
        self.stderr.write(
            "The token is shown only once. Send it with every request: Authorization: Bearer "
            + token[:8]
            + "…"
        )

    def _list(self, options: dict[str, Any]) -> None:
        tokens = [_facts(token) for token in ApiToken.objects.select_related("user").order_by("pk")]
        self.say_facts(tokens, options["format"], "no tokens yet: replview token create NAME")

    def _revoke(self, options: dict[str, Any]) -> None:
        tokens = ApiToken.objects.filter(name=options["name"], revoked_at=None)
        if options["user"]:
            tokens = tokens.filter(user=_user(options["user"]))
        count = tokens.count()
        if count == 0:
            raise CommandError(f"there is no token {options['name']}; see 'replview token list'")
        if count > 1:
            raise CommandError(f"several users have a token {options['name']}: give --user")
        tokens.update(revoked_at=timezone.now())
        note("changed_settings", subject=f"token {options['name']}", details={"act": "revoked"})
        self.say(f"token {options['name']} is revoked")


def _user(name: str | None) -> User:
    users = get_user_model().objects.filter(is_active=True)
    if name:
        user = users.filter(username=name).first()
        if user is None:
            raise CommandError(f"there is no user {name}")
        return user
    candidates = list(users[:2])
    if not candidates:
        raise CommandError("there is no user yet: replview createsuperuser")
    if len(candidates) > 1:
        raise CommandError("there are several users: name one with --user")
    return candidates[0]


def _facts(token: ApiToken) -> dict[str, str]:
    now = timezone.now()
    state = "revoked" if token.revoked_at else "good"
    if token.expires_at and not token.revoked_at:
        is_expired = token.expires_at <= now
        state = "expired" if is_expired else f"good until {token.expires_at:%Y-%m-%d}"
    return {
        "name": token.name,
        "user": token.user.get_username(),
        "scope": token.scope,
        "begins": token.hint,
        "created": f"{token.created_at:%Y-%m-%d %H:%M}",
        "last_used": f"{token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never",
        "state": state,
    }
