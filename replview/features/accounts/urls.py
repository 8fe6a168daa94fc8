"""URLs of accounts, the user's own account, single sign-on and the first admin."""

from django.contrib.auth.decorators import login_not_required
from django.urls import path

from replview.access import single_sign_on
from replview.access.page import EVERYONE, page
from replview.features.accounts import me_views as me
from replview.features.accounts import second_factor_views as second_factor
from replview.features.accounts import views as accounts

_ACCOUNT = "accounts/<int:user_id>/"

urlpatterns = [
    path("accounts/", accounts.listing, name="accounts"),
    path("accounts/me/", me.me, name="me"),
    path("accounts/me/password/", me.password, name="me-password"),
    path("accounts/me/second-factor/", second_factor.set_up, name="me-second-factor"),
    path("accounts/me/second-factor/off/", second_factor.turn_off, name="me-second-factor-off"),
    path("accounts/me/sign-out/", me.sign_out, name="me-sign-out"),
    path("accounts/me/sessions/<str:name>/end/", me.end_session, name="me-session-end"),
    path("accounts/me/tokens/", me.new_token, name="me-token"),
    path("accounts/me/tokens/<int:token_id>/revoke/", me.revoke_token, name="me-token-revoke"),
    path("accounts/grants/", accounts.give, name="grant-new"),
    path("accounts/grants/<int:grant_id>/remove/", accounts.take, name="grant-remove"),
    path(_ACCOUNT, accounts.account, name="account"),
    path(f"{_ACCOUNT}role/", accounts.change_role, name="account-role"),
    path(f"{_ACCOUNT}password/", accounts.password, name="account-password"),
    path(
        f"{_ACCOUNT}second-factor/remove/",
        accounts.remove_second_factor,
        name="account-second-factor-remove",
    ),
    path(f"{_ACCOUNT}active/", accounts.active, name="account-active"),
    path(f"{_ACCOUNT}sign-out/", accounts.sign_out, name="account-sign-out"),
    path(f"{_ACCOUNT}unlock/", accounts.unlock, name="account-unlock"),
    path(
        f"{_ACCOUNT}tokens/<int:token_id>/revoke/",
        accounts.revoke_token,
        name="account-token-revoke",
    ),
    path("setup/<str:code>/", accounts.setup, name="setup"),
    path(
        "login/other/",
        page(role=EVERYONE)(login_not_required(single_sign_on.BeginSignOn.as_view())),
        name="oidc_authentication_init",
    ),
    path(
        "login/other/back/",
        page(role=EVERYONE)(login_not_required(single_sign_on.Callback.as_view())),
        name="oidc_authentication_callback",
    ),
]
