"""The table of who may: every address, and every socket, with the role it needs.

An address that is missing here is refused, and a test fails. ``EVERYONE`` asks for no login at all,
``SIGNED_IN`` for no role, and ``Both`` for one role to look and another to change.

That a source is among those somebody may see is no matter of this table: see ``objects.py``.
"""

from typing import Final, NamedTuple, TypeAlias

from replview.access.rights import Role

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN

#: Before a login: the login itself, and what checks by itself who asks.
EVERYONE: Final = "everyone"
#: Every account, without a role too.
SIGNED_IN: Final = "signed in"


class Both(NamedTuple):
    """Of an address that shows on GET and changes on POST."""

    look: Role
    change: Role


Allowed: TypeAlias = Role | Both | str

#: By the address's name, with its namespace.
ALLOWED: dict[str, Allowed] = {
    # Signing in, and one's own account.
    "login": EVERYONE,
    "logout": EVERYONE,
    "setup": EVERYONE,
    "oidc_authentication_init": EVERYONE,
    "oidc_authentication_callback": EVERYONE,
    "me": SIGNED_IN,
    "me-password": SIGNED_IN,
    "me-token": VIEWER,
    "me-token-revoke": SIGNED_IN,
    "me-sign-out": SIGNED_IN,
    # Watching.
    "overview": VIEWER,
    "shell-health": VIEWER,
    "components": VIEWER,
    "search": VIEWER,
    "live": VIEWER,
    "test-message": OPERATOR,
    "in-flight": VIEWER,
    "in-flight-now": VIEWER,
    "in-flight-ended": VIEWER,
    "in-flight-drawer": VIEWER,
    "lag": VIEWER,
    "lag-data": VIEWER,
    # Samples of the server: no value of any row.
    "lag-csv": VIEWER,
    # Browsing.
    "transactions": VIEWER,
    "transaction": VIEWER,
    "transaction-drawer": VIEWER,
    "transaction-changes": VIEWER,
    "transaction-coverage": VIEWER,
    "transaction-undo": VIEWER,
    "transaction-value": VIEWER,
    "transaction-change-json": VIEWER,
    "transaction-change-sql": VIEWER,
    "transaction-change-undo": VIEWER,
    "saved-filter-save": VIEWER,
    "saved-filter-delete": VIEWER,
    "row-history": VIEWER,
    "row-history-change": VIEWER,
    "relations": VIEWER,
    "relation": VIEWER,
    "relation-evidence": VIEWER,
    "relation-now": VIEWER,
    "relation-version": VIEWER,
    "actors": VIEWER,
    "actor": VIEWER,
    "find": VIEWER,
    "find-columns": VIEWER,
    "archive-transaction": VIEWER,
    "archive-row": VIEWER,
    # Taking out.
    "download": OPERATOR,
    "exports": OPERATOR,
    "export-new": OPERATOR,
    "export-test": OPERATOR,
    "exports-all": OPERATOR,
    "exports-allow": ADMIN,
    "export": OPERATOR,
    "export-cancel": OPERATOR,
    "export-log": OPERATOR,
    "history-jobs": OPERATOR,
    "history-job-new": OPERATOR,
    "history-jobs-all": OPERATOR,
    "history-job": OPERATOR,
    "history-job-cancel": OPERATOR,
    "history-job-log": OPERATOR,
    # Slots.
    "slots": VIEWER,
    "slot": VIEWER,
    "slot-budget": OPERATOR,
    "baselines": Both(VIEWER, OPERATOR),
    "quarantine": OPERATOR,
    "quarantine-raw": OPERATOR,
    "quarantine-file": OPERATOR,
    "source-slots": VIEWER,
    "peek-ask": OPERATOR,
    "peek": OPERATOR,
    "managed": VIEWER,
    "slot-start": OPERATOR,
    "slot-stop": OPERATOR,
    "slot-tables": OPERATOR,
    # As with masks: values may come back to be seen.
    "slot-columns": ADMIN,
    "slot-adopt": OPERATOR,
    "slot-drop": OPERATOR,
    # Alerts.
    "alerts": VIEWER,
    "alert": VIEWER,
    "alerts-seen": OPERATOR,
    "alert-seen": OPERATOR,
    "alert-rules": VIEWER,
    "alert-rule": OPERATOR,
    "alert-rule-new": OPERATOR,
    "alert-rule-try": OPERATOR,
    "alert-rule-change": OPERATOR,
    "webhooks": ADMIN,
    "webhook-change": ADMIN,
    # The demo's shop.
    "trouble": VIEWER,
    "trouble-wish": OPERATOR,
    # The store, and sources.
    "store": Both(VIEWER, ADMIN),
    "store-archive": ADMIN,
    "store-archive-now": ADMIN,
    "store-archive-off": ADMIN,
    "sources": VIEWER,
    "source": VIEWER,
    "source-publications": VIEWER,
    "source-credentials": ADMIN,
    "source-move": ADMIN,
    "source-rename": ADMIN,
    "source-remove": ADMIN,
    "source-doctor": OPERATOR,
    # Adding a source.
    "source-new": ADMIN,
    "source-new-kind": ADMIN,
    "draft-connection": ADMIN,
    "draft-check": ADMIN,
    "draft-tables": ADMIN,
    "draft-columns": ADMIN,
    "draft-options": ADMIN,
    "draft-review": ADMIN,
    "draft-progress": ADMIN,
    "draft-cancel": ADMIN,
    # Privacy.
    "masks": ADMIN,
    "erase": ADMIN,
    "erasure": ADMIN,
    "erase-confirm": ADMIN,
    "erase-drop": ADMIN,
    "erase-again": ADMIN,
    "mask-remove": ADMIN,
    # Accounts.
    "accounts": ADMIN,
    "account": ADMIN,
    "account-role": ADMIN,
    "account-password": ADMIN,
    "account-active": ADMIN,
    "account-sign-out": ADMIN,
    "account-unlock": ADMIN,
    "account-token-revoke": ADMIN,
    "grant-new": ADMIN,
    "grant-remove": ADMIN,
    # The access record.
    "access-record": ADMIN,
    "access-record-file": ADMIN,
    # What each slot keeps, and what would be lost: admins change it.
    "slot-keeping": Both(VIEWER, ADMIN),
    # For programs; ``/metrics`` checks its token by itself.
    "metrics": EVERYONE,
    "api:api-root": VIEWER,
    "api:openapi-json": VIEWER,
    "api:openapi-view": VIEWER,
    "api:slots": VIEWER,
    "api:sources": VIEWER,
    "api:source": VIEWER,
    "api:start_slot": OPERATOR,
    "api:stop_slot": OPERATOR,
    "api:change_slot_tables": OPERATOR,
    "api:change_slot_columns": ADMIN,
    "api:adopt_slot": OPERATOR,
    "api:drop_slot": OPERATOR,
    "api:change_credentials": ADMIN,
    "api:change_address": ADMIN,
    "api:rename": ADMIN,
    "api:remove": ADMIN,
    "api:transactions": VIEWER,
    "api:transaction": VIEWER,
    "api:changes": VIEWER,
    "api:follow": VIEWER,
    "api:changes_of_transaction": VIEWER,
    "api:rows": VIEWER,
    "api:as_of": VIEWER,
    "api:relations": VIEWER,
    "api:relation": VIEWER,
    "api:actors": VIEWER,
    "api:actor": VIEWER,
    "api:coverage": VIEWER,
    "api:estimate": OPERATOR,
    "api:create": OPERATOR,
    "api:all_exports": OPERATOR,
    "api:one": OPERATOR,
    "api:cancel": OPERATOR,
    "api:access_record": ADMIN,
    "api:store": VIEWER,
}

#: Operations that a token of scope ``export`` may use though they change something.
EXPORTING = frozenset({"api:create", "api:all_exports", "api:one", "api:cancel"})
#: Methods that only look.
LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})


def role_for(name: str, method: str) -> Role | str | None:
    """What the address asks of whoever comes with this method; None: it is in no table."""
    found = ALLOWED.get(name)
    if isinstance(found, Both):
        return found.look if method in LOOKING else found.change
    return found
