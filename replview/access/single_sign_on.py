"""Single sign-on through an OpenID Connect provider; mozilla-django-oidc walks the code flow.

An account is known again by the provider's name for it (issuer and ``sub``), never by an e-mail
address, which others may be able to claim. At the first sign-in an account is made; one that an
admin made before under that name is taken over only where it has no password. The provider's groups
decide the role at each sign-in, and membership of the groups here that have the same name, so that
grants can be given to them.

Beyond the library: the token must be for this client and from this issuer, and what the provider
says of somebody must be of whom the token is.
"""

import logging
import time
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from replview.access.rights import RightsBackend, Role, set_role
from replview.store.models import Identity
from replview.text.parsing import clean_text

log = logging.getLogger(__name__)

_DISCOVERED_FOR_SECONDS = 3600.0
#: The library's names of what the provider tells of itself.
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
_MAX_NAME = 150
_CLOCKS_DIFFER_SECONDS = 60
#: By issuer: until when (monotonic), and its configuration.
_discovered: dict[str, tuple[float, dict[str, Any]]] = {}


def discovered() -> dict[str, object]:
    """What the provider tells of itself, asked once an hour; raises ``RequestException``."""
    issuer = settings.OIDC_ISSUER
    until, found = _discovered.get(issuer, (0.0, {}))
    if time.monotonic() >= until:
        url = f"{issuer}/.well-known/openid-configuration"
        answer = requests.get(url, timeout=settings.OIDC_TIMEOUT, allow_redirects=False)
        answer.raise_for_status()
        found = answer.json()
        if str(found.get("issuer", "")).rstrip("/") != issuer:
            raise requests.RequestException("the provider calls itself by another name")
        _discovered[issuer] = (time.monotonic() + _DISCOVERED_FOR_SECONDS, found)
    return found


def setting(name: str, *default: Any) -> Any:
    """The library's settings: addresses are the provider's own words."""
    if name in _ENDPOINTS:
        return discovered().get(_ENDPOINTS[name], *default[:1]) or ""
    return OIDCAuthenticationBackend.get_settings(name, *default)


class SingleSignOn(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Checks what the provider says, and finds or makes the account."""

    def __init__(self) -> None:
        """The provider's addresses are asked for when somebody signs in."""
        self.UserModel = get_user_model()
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID
        self.OIDC_RP_CLIENT_SECRET = settings.OIDC_RP_CLIENT_SECRET
        self.OIDC_RP_SIGN_ALGO = settings.OIDC_RP_SIGN_ALGO
        self.OIDC_RP_IDP_SIGN_KEY = None

    get_settings = staticmethod(setting)

    def __getattr__(self, name: str) -> Any:
        """Endpoints, which the library keeps as attributes."""
        if name in _ENDPOINTS:
            return setting(name)
        raise AttributeError(name)

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> Any:
        """Only for the provider's callback: this is asked for every login."""
        if request is None or "nonce" not in kwargs:
            return None
        return super().authenticate(request, **kwargs)

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, object]:
        """The token's claims: signed, for us, from the provider."""
        try:
            claims: dict[str, Any] = super().verify_token(token, **kwargs)
        except (jwt.PyJWTError, KeyError, TypeError) as error:
            # Expired, or not made as tokens are: the library lets these through.
            raise SuspiciousOperation(f"the token is not good: {type(error).__name__}") from None
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if settings.OIDC_RP_CLIENT_ID not in audiences:
            raise SuspiciousOperation("the token is for another client")
        if len(audiences) > 1 and claims.get("azp") != settings.OIDC_RP_CLIENT_ID:
            raise SuspiciousOperation("the token was given to another client")
        if str(claims.get("iss", "")).rstrip("/") != settings.OIDC_ISSUER:
            raise SuspiciousOperation("the token is of another issuer")
        if "exp" not in claims or not claims.get("sub"):
            raise SuspiciousOperation("the token lacks its end, or whose it is")
        _check_authentication(claims)
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> Any:
        """The account of whom the token is; None: nobody may sign in so."""
        claims = dict(payload)
        if setting("OIDC_OP_USER_ENDPOINT"):
            more = self.get_userinfo(access_token, id_token, payload)
            if more.get("sub") != payload["sub"]:
                raise SuspiciousOperation("the provider told of somebody else")
            claims |= more
        return account_of(claims)

    def get_user(self, user_id: Any) -> Any:
        """With its rights, as for other logins."""
        return RightsBackend().get_user(user_id)


def _check_authentication(claims: dict[str, Any]) -> None:
    """Raise ``SuspiciousOperation`` where the provider does not say that somebody signed in there
    as strongly, and as lately, as the settings ask for.
    """
    if settings.OIDC_ACR and claims.get("acr") not in settings.OIDC_ACR:
        raise SuspiciousOperation("the token tells another strength of the sign-in (acr)")
    at, most_seconds = claims.get("auth_time"), settings.OIDC_MAX_AGE_SECONDS
    if most_seconds and (
        not isinstance(at, int) or time.time() - at > most_seconds + _CLOCKS_DIFFER_SECONDS
    ):
        raise SuspiciousOperation("the token tells no recent sign-in at the provider")


@transaction.atomic
def account_of(claims: dict[str, Any]) -> Any:
    """The account of these claims, made if need be, with its role and groups as they say."""
    issuer, subject = settings.OIDC_ISSUER, str(claims["sub"])
    known = Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
    user = known.user if known else _new_account(claims)
    if user is None or not user.is_active:
        return None
    if known is None:
        Identity.objects.create(user=user, issuer=issuer, subject=subject)
    groups = _groups(claims)
    if not user.is_superuser:
        set_role(user, role_for_groups(groups))
    mine = Group.objects.exclude(name__in=[role.word for role in Role])
    user.groups.remove(*mine.exclude(name__in=groups))
    user.groups.add(*mine.filter(name__in=groups))
    return user


def role_for_groups(groups: set[str]) -> Role | None:
    """The highest role that one of the provider's groups has; ``*`` is everybody's."""
    found = []
    for part in settings.OIDC_ROLES.split(";"):
        word, _, names = part.partition("=")
        role = Role.of_word(word.strip())
        wanted = {name.strip() for name in names.split(",") if name.strip()}
        if role is not None and ("*" in wanted or wanted & groups):
            found.append(role)
    return max(found, default=None)


def _new_account(claims: dict[str, Any]) -> Any:
    users = get_user_model()
    given = clean_text(claims.get(settings.OIDC_USERNAME_CLAIM) or claims["sub"], strip=False)
    # As it will be kept: other letters may be written for the same name.
    name = users.normalize_username(given)[:_MAX_NAME]
    # As people read it: an account "Alice" beside "alice" would be taken for her in the record.
    user = users._default_manager.filter(username__iexact=name).first()
    if user is None:
        return users._default_manager.create_user(name, email=str(claims.get("email") or "")[:254])
    # Somebody with a password is not whoever the provider calls by the same name.
    others = user.username != name or Identity.objects.filter(user=user).exists()
    if name != given or others or user.has_usable_password():
        log.warning("single sign-on: an account of this name is there already")
        return None
    return user


def _groups(claims: dict[str, Any]) -> set[str]:
    groups = claims.get(settings.OIDC_GROUPS_CLAIM)
    return {str(name) for name in groups} if isinstance(groups, list) else set()


class Begin(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """Sends the browser to the provider."""

    get_settings = staticmethod(setting)

    def __init__(self, **kwargs: Any) -> None:
        """The provider is asked for its address when the browser comes."""
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        """Return how strongly and how lately somebody must have signed in at the provider."""
        asked = {
            "acr_values": " ".join(settings.OIDC_ACR),
            "max_age": str(settings.OIDC_MAX_AGE_SECONDS or ""),
        }
        return {name: value for name, value in asked.items() if value}

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """There, with a state, a nonce and a challenge that its answer must fit."""
        _only_where_configured()
        try:
            self.OIDC_OP_AUTH_ENDPOINT = setting("OIDC_OP_AUTHORIZATION_ENDPOINT")
        except requests.RequestException as error:
            return _away(error)
        response: HttpResponseBase = super().get(request)
        return response


class Callback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Where the provider sends the browser back to."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponseBase:
        _only_where_configured()
        begun = request.GET.get("state", "") in request.session.get("oidc_states", {})
        if "error" in request.GET and not begun:
            # The library would sign out whoever follows such a link, wherever it stands.
            return redirect(settings.LOGIN_REDIRECT_URL_FAILURE)
        try:
            response: HttpResponseBase = super().get(request)
        except requests.RequestException as error:
            return _away(error)
        except SuspiciousOperation as error:
            log.warning("single sign-on: refused: %s", error)
            return redirect(settings.LOGIN_REDIRECT_URL_FAILURE)
        # It may name a row, and the session is kept for days.
        request.session.pop("oidc_login_next", None)
        return response


def _only_where_configured() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404("there is no single sign-on here")


def _away(error: Exception) -> HttpResponseBase:
    # Its text may hold what the provider answered.
    log.warning("single sign-on: the provider cannot be asked: %s", type(error).__name__)
    return redirect("/login/?sso=away")
