"""The second factor of an account with a password: codes of an authenticator app (RFC 6238).

An app and replview share a secret, from which both compute a code of six digits for every 30
seconds. The codes of the 30 seconds before and after are accepted, too, because clocks differ; none
of them twice. Ten recovery codes replace a lost app, each once.

pyotp computes the codes. django-otp would store secrets and recovery codes unencrypted.
"""

import hashlib
import secrets

import pyotp
import segno
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from pyotp.exceptions import OTPVerificationError

from replview.access import accounts
from replview.access.accounts import AccountProblem
from replview.access.rights import Role, role_of
from replview.store.models import SecondFactor
from replview.store.secrets import seal, unseal
from replview.store.write.access_record import note

RECOVERY_CODES = 10
#: A recovery code has digits only, like the phone keyboard of its field. They hold 119 random bits,
#: enough for storing a plain digest.
_RECOVERY_DIGITS = 36
_CODE_DIGITS = 6
#: Wrong codes after which none is accepted, from any address; recovery codes still are.
MOST_FAILURES = 100


def is_on(user: User) -> bool:
    """Return whether the account has a second factor."""
    return SecondFactor.objects.filter(user=user).exists()


def is_missing(user: User) -> bool:
    """Return whether the account has to set up a second factor before it may sign in."""
    required = settings.REQUIRE_SECOND_FACTOR
    concerned = required == "all" or (required == "admins" and role_of(user) is Role.ADMIN)
    return concerned and not is_on(user)


def new_secret() -> str:
    """Return a random secret of 160 bits, in base32."""
    return pyotp.random_base32()


def qr_code(secret: str, user: User, host: str) -> str:
    """Return the address of an image with which an app takes over the secret."""
    # A colon would separate the issuer from the account.
    issuer = f"replview {host}".replace(":", " ")
    uri = pyotp.TOTP(secret).provisioning_uri(name=user.get_username(), issuer_name=issuer)
    # Cameras need dark modules on a light ground, whatever the theme of the page.
    return segno.make(uri, error="m", micro=False).svg_data_uri(dark="#000", light="#fff")


@transaction.atomic
def set_up(user: User, secret: str, code: str) -> list[str]:
    """Store the secret if the code proves that an app has it, and return the recovery codes.

    Every session ends, because it began without the second factor. Raises ``AccountProblem``.
    """
    if is_on(user):
        raise AccountProblem("This account has a second factor already.", field="code")
    step = _step_of(secret, code)
    if step is None:
        raise AccountProblem(
            "This is not the code of this secret. Enter the one that the app shows now; if it is "
            "refused again, compare the clock of the phone.",
            field="code",
        )
    codes = [_new_recovery_code() for _ in range(RECOVERY_CODES)]
    digests = [_digest(recovery_code) for recovery_code in codes]
    SecondFactor.objects.create(
        user=user, sealed_secret=seal(secret), last_step=step, recovery_digests=digests
    )
    accounts.end_sessions(user)
    _note("second factor set up", user)
    return codes


@transaction.atomic
def remove(user: User) -> None:
    """Remove the second factor and end every session. Raises ``AccountProblem``."""
    if not SecondFactor.objects.filter(user=user).delete()[0]:
        raise AccountProblem("this account has no second factor")
    accounts.end_sessions(user)
    _note("second factor removed", user)


def accepts(factor: SecondFactor, typed: str) -> bool:
    """Return whether this is the app's code or a recovery code, which cannot be used again.

    The caller has locked the row, so that of two requests with one code only one is accepted.
    Raises ``SecretKeyChanged``.
    """
    digest = _digest(typed)
    if digest in factor.recovery_digests:
        factor.recovery_digests.remove(digest)
        codes_left = len(factor.recovery_digests)
        _note("recovery code used", factor.user, codes_left=codes_left)
    else:
        step = None
        if factor.failures < MOST_FAILURES:
            step = _step_of(unseal(factor.sealed_secret), typed)
        if step is None or step <= factor.last_step:
            factor.failures += 1
            factor.save(update_fields=["failures"])
            return False
        factor.last_step = step
    factor.failures = 0
    factor.save(update_fields=["recovery_digests", "last_step", "failures"])
    return True


def _step_of(secret: str, code: str) -> int | None:
    """Return the 30 seconds of the code, counted since 1970; None where it is not valid now."""
    code = "".join(code.split())
    if not (len(code) == _CODE_DIGITS and code.isascii() and code.isdigit()):
        return None
    try:
        return pyotp.TOTP(secret).verify_and_get_timecode(code, valid_window=1)
    except OTPVerificationError:
        return None


def _new_recovery_code() -> str:
    """Return a code, in groups of six digits: ``012345-678901-…``."""
    text = f"{secrets.randbelow(10**_RECOVERY_DIGITS):0{_RECOVERY_DIGITS}d}"
    return "-".join(text[start : start + 6] for start in range(0, len(text), 6))


def _digest(code: str) -> str:
    """Return the digest of a recovery code, with or without hyphens and spaces."""
    return hashlib.sha256("".join(code.replace("-", " ").split()).encode()).hexdigest()


def _note(act: str, user: User, **extra: int) -> None:
    name = user.get_username()
    details = {"act": act, "account": name, **extra}
    note("changed_settings", subject=f"account {name}", details=details)
