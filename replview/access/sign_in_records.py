"""Sign-ins, refused ones and sign-outs go into the access record, whichever way they came."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed

from replview.store.write.access_record import Action, note
from replview.text.parsing import clean_text

_UNKNOWN = "an account that does not exist"


def connect() -> None:
    """Listen, once a process."""
    user_logged_in.connect(_signed_in, dispatch_uid="replview.access.signed_in")
    user_login_failed.connect(_refused, dispatch_uid="replview.access.sign_in_failed")
    user_logged_out.connect(_signed_out, dispatch_uid="replview.access.signed_out")


def _signed_in(sender: Any, user: Any, **_: Any) -> None:
    note(Action.SIGNED_IN, user=user)


def _refused(sender: Any, credentials: dict[str, Any], **_: Any) -> None:
    """The account's name, where there is such: what else was typed may have been a password."""
    model = get_user_model()
    typed = clean_text(credentials.get(model.USERNAME_FIELD), strip=False)
    account = model._default_manager.filter(**{model.USERNAME_FIELD: typed}).first()
    note(
        Action.SIGN_IN_FAILED,
        user=account if account is not None else "",
        subject="" if account is not None else _UNKNOWN,
    )


def _signed_out(sender: Any, user: Any, **_: Any) -> None:
    if user is not None:
        note(Action.SIGNED_OUT, user=user)
