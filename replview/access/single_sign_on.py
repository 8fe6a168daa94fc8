"""Single sign-on through an OpenID Connect provider; mozilla-django-oidc does the code flow.

An account is found by the provider's identifier (issuer and ``sub``), never by an e-mail
address, which others may be able to claim. The first sign-in creates the account; one that an
admin created under that name is linked only where it has no password. The provider's groups
decide the role at each sign-in, and membership of the groups here that have the same name, so that
grants can be given to them.

This module checks more than the library: the token must be for this client and from this issuer,
and the claims of the user endpoint must have the token's subject.
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

#: Seconds for which the provider's configuration is cached.
_CONFIGURATION_SECONDS = 3600.0
#: The library's setting → the key in the provider's configuration.
_ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
_MAX_NAME = 150
#: Seconds by which the clock of the provider may differ.
_CLOCK_SKEW_SECONDS = 60
#: The issuer → the monotonic time of expiry, and its configuration.
_configurations: dict[str, tuple[float, dict[str, Any]]] = {}


def discovered() -> dict[str, object]:
    """Return the provider's configuration, read once an hour. Raises ``RequestException``."""
    issuer = settings.OIDC_ISSUER
    expires_at, configuration = _configurations.get(issuer, (0.0, {}))
    if time.monotonic() >= expires_at:
        url = f"{issuer}/.well-known/openid-configuration"
        response = requests.get(url, timeout=settings.OIDC_TIMEOUT, allow_redirects=False)
        response.raise_for_status()
        configuration = response.json()
        if str(configuration.get("issuer", "")).rstrip("/") != issuer:
            raise requests.RequestException("the provider calls itself by another name")
        _configurations[issuer] = (time.monotonic() + _CONFIGURATION_SECONDS, configuration)
    return configuration


def setting(name: str, *default: Any) -> Any:
    """Return a setting of the library; the provider's configuration gives the endpoints."""
    if name in _ENDPOINTS:
        return discovered().get(_ENDPOINTS[name], *default[:1]) or ""
    return OIDCAuthenticationBackend.get_settings(name, *default)


class SingleSignOn(OIDCAuthenticationBackend):  # type: ignore[misc]
    """The authentication backend that checks the provider's claims and finds the account."""

    def __init__(self) -> None:
        """Read only local settings; the endpoints are read when somebody signs in."""
        self.UserModel = get_user_model()
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID
        self.OIDC_RP_CLIENT_SECRET = settings.OIDC_RP_CLIENT_SECRET
        self.OIDC_RP_SIGN_ALGO = settings.OIDC_RP_SIGN_ALGO
        self.OIDC_RP_IDP_SIGN_KEY = None

    get_settings = staticmethod(setting)

    def __getattr__(self, name: str) -> Any:
        """Return an endpoint, which the library expects as an attribute."""
        if name in _ENDPOINTS:
            return setting(name)
        raise AttributeError(name)

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> Any:
        """Authenticate only the provider's callback; Django calls this for every login."""
        if request is None or "nonce" not in kwargs:
            return None
        return super().authenticate(request, **kwargs)

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, object]:
        """Return the claims of a token that is signed, for this client, and from the provider."""
        try:
            claims: dict[str, Any] = super().verify_token(token, **kwargs)
        except (jwt.PyJWTError, KeyError, TypeError) as error:
            # The token expired or is malformed: the library does not catch these errors.
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
        """Return the account of the token's subject; None where it may not sign in."""
        claims = dict(payload)
        if setting("OIDC_OP_USER_ENDPOINT"):
            user_info = self.get_userinfo(access_token, id_token, payload)
            if user_info.get("sub") != payload["sub"]:
                raise SuspiciousOperation("the provider told of somebody else")
            claims |= user_info
        return account_of(claims)

    def get_user(self, user_id: Any) -> Any:
        """Return the account of a session with its rights, as for other logins."""
        return RightsBackend().get_user(user_id)


def _check_authentication(claims: dict[str, Any]) -> None:
    """Raise ``SuspiciousOperation`` unless the sign-in was as strong and recent as required.

    The provider reports it in the token.
    """
    if settings.OIDC_ACR and claims.get("acr") not in settings.OIDC_ACR:
        raise SuspiciousOperation("the token tells another strength of the sign-in (acr)")
    authenticated_at, most_seconds = claims.get("auth_time"), settings.OIDC_MAX_AGE_SECONDS
    if most_seconds and (
        not isinstance(authenticated_at, int)
        or time.time() - authenticated_at > most_seconds + _CLOCK_SKEW_SECONDS
    ):
        raise SuspiciousOperation("the token tells no recent sign-in at the provider")


@transaction.atomic
def account_of(claims: dict[str, Any]) -> Any:
    """Return the account of these claims, created if need be, with their role and groups."""
    issuer, subject = settings.OIDC_ISSUER, str(claims["sub"])
    identity = (
        Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
    )
    user = identity.user if identity else _new_account(claims)
    if user is None or not user.is_active:
        return None
    if identity is None:
        Identity.objects.create(user=user, issuer=issuer, subject=subject)
    groups = _groups(claims)
    if not user.is_superuser:
        set_role(user, role_for_groups(groups))
    ordinary_groups = Group.objects.exclude(name__in=[role.word for role in Role])
    user.groups.remove(*ordinary_groups.exclude(name__in=groups))
    user.groups.add(*ordinary_groups.filter(name__in=groups))
    return user


def role_for_groups(groups: set[str]) -> Role | None:
    """Return the highest role that one of the provider's groups has; ``*`` means everybody."""
    roles = []
    for entry in settings.OIDC_ROLES.split(";"):
        word, _, group_list = entry.partition("=")
        role = Role.of_word(word.strip())
        group_names = {name.strip() for name in group_list.split(",") if name.strip()}
        if role is not None and ("*" in group_names or group_names & groups):
            roles.append(role)
    return max(roles, default=None)


def _new_account(claims: dict[str, Any]) -> Any:
    users = get_user_model()
    claimed_name = clean_text(
        claims.get(settings.OIDC_USERNAME_CLAIM) or claims["sub"], strip=False
    )
    # Normalize, because two spellings can give the same stored name.
    name = users.normalize_username(claimed_name)[:_MAX_NAME]
    # Ignore case: an account "Alice" beside "alice" would be mistaken for her in the record.
    user = users._default_manager.filter(username__iexact=name).first()
    if user is None:
        return users._default_manager.create_user(name, email=str(claims.get("email") or "")[:254])
    # An account with a password may belong to another person of the same name.
    is_taken = user.username != name or Identity.objects.filter(user=user).exists()
    if name != claimed_name or is_taken or user.has_usable_password():
        log.warning("single sign-on: an account of this name is there already")
        return None
    return user


def _groups(claims: dict[str, Any]) -> set[str]:
    groups = claims.get(settings.OIDC_GROUPS_CLAIM)
    return {str(name) for name in groups} if isinstance(groups, list) else set()


class BeginSignOn(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """The view that redirects the browser to the provider."""

    get_settings = staticmethod(setting)

    def __init__(self, **kwargs: Any) -> None:
        """Read only local settings; the provider's address is read in ``get``."""
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        """Return how strongly and how lately somebody must have signed in at the provider."""
        params = {
            "acr_values": " ".join(settings.OIDC_ACR),
            "max_age": str(settings.OIDC_MAX_AGE_SECONDS or ""),
        }
        return {name: value for name, value in params.items() if value}

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """Redirect with a state, a nonce and a challenge that the provider's answer must match."""
        _require_configured()
        try:
            self.OIDC_OP_AUTH_ENDPOINT = setting("OIDC_OP_AUTHORIZATION_ENDPOINT")
        except requests.RequestException as error:
            return _redirect_to_login(error)
        response: HttpResponseBase = super().get(request)
        return response


class Callback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """The view to which the provider sends the browser back."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """Sign in the account of the provider's answer, or go back to the login page."""
        _require_configured()
        begun = request.GET.get("state", "") in request.session.get("oidc_states", {})
        if "error" in request.GET and not begun:
            # The library would sign out everybody who follows such a link from anywhere.
            return redirect(settings.LOGIN_REDIRECT_URL_FAILURE)
        try:
            response: HttpResponseBase = super().get(request)
        except requests.RequestException as error:
            return _redirect_to_login(error)
        except SuspiciousOperation as error:
            log.warning("single sign-on: refused: %s", error)
            return redirect(settings.LOGIN_REDIRECT_URL_FAILURE)
        # The address may name a row, and the session is kept for days.
        request.session.pop("oidc_login_next", None)
        return response


def _require_configured() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404("there is no single sign-on here")


def _redirect_to_login(error: Exception) -> HttpResponseBase:
    # The error's text may contain the provider's answer, so log only its type.
    log.warning("single sign-on: the provider cannot be asked: %s", type(error).__name__)
    return redirect("/login/?sso=away")
