"""This module lists the environment variables of an instance, with meaning and default.

docs/reference/settings.md is generated from ``VARIABLES``. A secret may also be given as the file
that holds it (``REPLVIEW_STORE_URL_FILE=/run/secrets/store-url``), which is how container and
service managers pass secrets. The secret is not copied into the environment: our processes read the
file themselves.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, as the reference page describes it."""

    name: str
    #: The description, in Markdown.
    meaning: str
    #: The value that is used when the variable is not set.
    default: str = ""
    #: The text that the page shows instead, where the default depends on something.
    default_in_words: str = ""
    #: True if the variable may be given as NAME_FILE.
    secret: bool = False


#: Variables by the title of their group, in the order of the page.
GROUPS: dict[str, tuple[Variable, ...]] = {
    "What an installation needs": (
        Variable("REPLVIEW_STORE_URL",
            "The store: `postgresql://user:password@host:port/database?sslmode=…`.",
            default_in_words="that of a running demo", secret=True),
        Variable("REPLVIEW_REDIS_URL",
            "Redis or Valkey, for tasks and live wake-ups: `redis://:password@host:port/0`, "
            "or `rediss://` for TLS.", default="redis://127.0.0.1:6379/0", secret=True),
        Variable("REPLVIEW_SECRET_KEY",
            "50 random characters. The key signs sessions and seals the passwords of sources "
            "and the addresses of webhooks. `replview up` refuses to start without it.",
            default="not-for-production-set-REPLVIEW_SECRET_KEY",
            default_in_words="none", secret=True),
        Variable("REPLVIEW_SECRET_KEYS_OLD",
            "Former keys, separated by commas. They still unseal, until `replview secrets "
            "rotate` has sealed everything with the present key.", secret=True),
        Variable("REPLVIEW_DATA",
            "The folder of exports, logs and process files, and of a demo's data. `--data` "
            "sets the same.", default=".replview"),
        Variable("REPLVIEW_INSTANCE",
            "Where several instances share one Redis: the prefix of this instance's keys "
            "there, after `replview-`. Up to 40 letters, digits, `.`, `_`, `-`; the same for "
            "all processes of an instance.",
            default_in_words="a digest of the store's system identifier and database"),
    ),
    "How it is reached": (
        Variable("REPLVIEW_ALLOWED_HOSTS",
            "The host names that the pages answer to, separated by commas.",
            default="localhost,127.0.0.1,[::1]"),
        Variable("REPLVIEW_TRUSTED_ORIGINS",
            "The origins behind a proxy, separated by commas: `https://replview.example`."),
        Variable("REPLVIEW_HTTPS",
            "`1`: replview is behind a proxy that ends TLS and sets `X-Forwarded-Proto` "
            "itself. Cookies are sent over TLS only, plain requests are redirected to TLS, "
            "and browsers are told to remember that (HSTS)."),
        Variable("REPLVIEW_HTTPS_REDIRECT",
            "`0`: replview does not redirect plain requests, because the proxy does.",
            default="1", default_in_words="`1` with `REPLVIEW_HTTPS`"),
        Variable("REPLVIEW_HSTS_SECONDS",
            "How long browsers remember to use TLS only; `0` switches HSTS off.",
            default="31536000", default_in_words="`31536000` with `REPLVIEW_HTTPS`"),
        Variable("REPLVIEW_HSTS_SUBDOMAINS",
            "`0`: HSTS does not include subdomains.",
            default="1", default_in_words="`1` with `REPLVIEW_HTTPS`"),
        Variable("REPLVIEW_METRICS_PUBLIC",
            "`1`: everybody who reaches the pages may read `/metrics`, which names sources "
            "and slots. Otherwise it needs a login or a token."),
    ),
    "Who may sign in": (
        Variable("REPLVIEW_SESSION_HOURS",
            "A login ends after so many hours, whether it is used or not.", default="168"),
        Variable("REPLVIEW_SESSION_IDLE_MINUTES",
            "A login ends after so many minutes without use; a page that refreshes itself "
            "does not count as use. `0`: never.", default="1440"),
        Variable("REPLVIEW_PASSWORD_LENGTH",
            "The shortest password that may be chosen.", default="12"),
        Variable("REPLVIEW_PASSWORD_WORDS",
            "Words that no password may mostly be made of, separated by commas: the "
            "organisation's, its products'. The names of the hosts and replview's own are always "
            "among them."),
        Variable("REPLVIEW_BREACHED_PASSWORDS",
            "A file of passwords that are known from breaches, none of which may be chosen: lines "
            "that begin with the SHA-1 of one in hexadecimal digits, sorted."),
        Variable("REPLVIEW_SESSIONS_OF_ACCOUNT",
            "How many browsers one account may be signed in by at once: one more signs out the one "
            "that was not used for longest.", default="20"),
        Variable("REPLVIEW_REQUIRE_SECOND_FACTOR",
            "`admins` or `all`: these accounts, where they have a password, set up a second factor "
            "at their next sign-in, and go nowhere before. Empty: it is for each to decide."),
        Variable("REPLVIEW_LOGIN_FAILURES",
            "So many wrong passwords or codes lock a login for a while.", default="5"),
        Variable("REPLVIEW_LOGIN_LOCK_MINUTES", "How long a login stays locked.", default="15"),
        Variable("REPLVIEW_OIDC_ISSUER",
            "Single sign-on: the provider's address. Empty: there is no single sign-on."),
        Variable("REPLVIEW_OIDC_CLIENT_ID", "The client's name at the provider."),
        Variable("REPLVIEW_OIDC_CLIENT_SECRET", "The client's secret.", secret=True),
        Variable("REPLVIEW_OIDC_NAME",
            "What the button of the login page says after *Sign in with*.",
            default="single sign-on"),
        Variable("REPLVIEW_OIDC_SCOPES", "The scopes to ask for.", default="openid email profile"),
        Variable("REPLVIEW_OIDC_SIGN_ALGO",
            "The algorithm with which the provider signs.", default="RS256"),
        Variable("REPLVIEW_OIDC_USERNAME_CLAIM",
            "The claim that names the login.", default="preferred_username"),
        Variable("REPLVIEW_OIDC_GROUPS_CLAIM",
            "The claim that lists the person's groups.", default="groups"),
        Variable("REPLVIEW_OIDC_ROLES",
            "Which groups of the provider have which role: "
            "`admin=dba,ops;operator=backend;viewer=*` (`*` is everybody). Who is in none of "
            "them has no role."),
        Variable("REPLVIEW_OIDC_ACR",
            "Which strengths of a sign-in (`acr`) the provider must have seen, separated by "
            "commas: it is asked for one of them, and a token without is refused. Empty: any."),
        Variable("REPLVIEW_OIDC_MAX_AGE_MINUTES",
            "How long ago somebody may have signed in at the provider (`auth_time`) when a session "
            "begins here: it is asked to have them sign in again. `0`: however long.", default="0"),
    ),
    "What sources may be named": (
        Variable("REPLVIEW_SOURCE_HOSTS",
            "Where sources, and servers that the address of an export names, may be, separated by "
            "commas: host names with `*`, networks (`10.0.0.0/8`), `socket`.",
            default_in_words="anywhere"),
        Variable("REPLVIEW_SOURCE_FILES",
            "Folders, separated by commas. Addresses that are typed into a page may name "
            "certificates and password files only below them.", default_in_words="none"),
        Variable("REPLVIEW_SOURCE_VARIABLES",
            "Variables that an address typed into a page may name (`env:NAME`).",
            default="REPLVIEW_SOURCE_*,*_DSN,*_PASSWORD,PGPASSWORD*"),
        Variable("REPLVIEW_SOURCE_PASSWORDS",
            "Passwords kept in variables and files that an address may name beside a host (typed "
            "into a page, or given to a command without `--trust-host`), and the hosts that each "
            "is for: "
            "`env:SHOP_PASSWORD=*.db.example;file:/run/secrets/crm=10.0.0.0/8,socket`.",
            default_in_words="none"),
    ),
    "Limits, logs, jobs": (
        Variable("REPLVIEW_STATEMENT_SECONDS",
            "A single statement of a request on the store is cancelled after so many seconds;"
            " `0`: never.", default="30"),
        Variable("REPLVIEW_VALUE_ASIDE_MB",
            "A value that is larger (or the values of a row that are together) is kept aside from "
            "its change, in pieces.", default="64"),
        Variable("REPLVIEW_VALUE_LIMIT_MB",
            "A value that is larger is not kept: the record has its size and SHA-256. PostgreSQL "
            "has none above 1 GB. A receiver needs up to 150 MB and three times that. Exports and "
            "the archive have values of up to 384 MB, and of larger ones the size and SHA-256: a "
            "file's cell is in memory as a whole, several times. Download those from their "
            "transaction's page.", default="1024"),
        Variable("REPLVIEW_VERSIONS_PER_TABLE",
            "A slot stops when a table has more versions than this: each of them is stored.",
            default="10000"),
        Variable("REPLVIEW_DB_POOL",
            "`0`: the web server has no connection pool, and no limit to its statements.",
            default_in_words="`1` in the web server"),
        Variable("REPLVIEW_LOG_FORMAT",
            "`json`: one JSON object a line, with slot and LSN and never a value of a row. "
            "Otherwise plain lines.", default="text"),
        Variable("REPLVIEW_LOG_LEVEL", "`DEBUG`, `INFO`, `WARNING` …", default="INFO"),
        Variable("REPLVIEW_SPARK",
            "Where large exports are written, and "
            "where large history jobs run: `local[2]`, `spark://…` (PySpark and Java are needed "
            "here), or `sc://…` ([Spark Connect](../export-and-spark.md#spark-elsewhere), without "
            "a token). Exports to an object store are written by Spark only if this is set, "
            "since Spark needs a connector for them.", default="local[2]"),
        Variable("REPLVIEW_SPARK_FROM_ROWS",
            "From so many changes on an export is large.",
            default="1000000"),
        Variable("REPLVIEW_SPARK_ABOVE",
            "History jobs that read more rows of Parquet than this are answered by Spark, all "
            "others by DuckDB in the worker's own process, for which no Java is needed. The "
            "answers are the same. `0`: Spark answers all.", default="10000000"),
        Variable("REPLVIEW_WEBHOOK_URL",
            "The address for `replview webhook add`, so that no command line shows it."),
        Variable("REPLVIEW_DEBUG", "`1`: Django's debug pages; never where others can reach them."),
    ),
    "What replview tells its own processes": (
        Variable("REPLVIEW_DEMO", "Not for setting: `1` in the processes of a demo."),
        Variable("REPLVIEW_DEMO_SOURCE_URL", "Not for setting: where the demo's shop is."),
        Variable("REPLVIEW_LOGIN", "Not for setting: the login of a demo, made once."),
        Variable("REPLVIEW_LOGIN_PASSWORD", "Not for setting: that login's password."),
        Variable("REPLVIEW_SUPERVISED",
            "Not for setting: marks the processes of one data folder, so that the leftovers "
            "of a killed run are found."),
        Variable("REPLVIEW_URL", "Not for setting: where the pages of `replview watch` are."),
        Variable("REPLVIEW_WATCH_DSN", "Not for setting: what `replview watch` watches."),
    ),
    "What tests of replview set": (
        Variable("REPLVIEW_TEST", "Not for setting: `1` in the processes of a test."),
        Variable("REPLVIEW_FAILPOINTS",
            "Not for setting: where a test stops or fails a process. No process starts with it, "
            "unless `REPLVIEW_TEST` or `REPLVIEW_DEBUG` is set."),
        Variable("REPLVIEW_WALSENDER_TIMEOUT_SECONDS",
            "Not for setting: how long a source and a receiver wait for a word of each other.",
            default="10"),
        Variable("REPLVIEW_HEARTBEAT_SECONDS",
            "Not for setting: how often a receiver says that it is alive.", default="1"),
        Variable("REPLVIEW_LEASE_SECONDS",
            "Not for setting: without a heartbeat for so long, a receiver loses its slot.",
            default="6"),
        Variable("REPLVIEW_STORE_GONE_SECONDS",
            "Not for setting: a receiver gives up a store that takes longer for a batch. It is "
            "longer than a lease.", default="15"),
    ),
}  # fmt: skip
VARIABLES = {variable.name: variable for group in GROUPS.values() for variable in group}
#: Variables that may be given as NAME_FILE.
FROM_FILES = tuple(variable.name for variable in VARIABLES.values() if variable.secret)


def value(name: str) -> str:
    """Return a variable's value, or its default; for a secret, its file is read too."""
    variable = VARIABLES[name]
    if variable.secret:
        return _secret(name, variable.default)
    return os.environ.get(name, variable.default)


def is_on(name: str) -> bool:
    """Return whether a variable that is ``1`` or ``0`` is on."""
    return value(name) == "1"


def values(name: str) -> list[str]:
    """Return the values of a variable that holds several, separated by commas."""
    return _split_list(value(name))


def lists(name: str) -> dict[str, list[str]]:
    """Return a mapping of lists from a variable such as ``a=1,2;b=3``."""
    parts = (part.partition("=") for part in value(name).split(";") if part.strip())
    return {key.strip(): _split_list(text) for key, _, text in parts}


def _split_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def is_given(name: str) -> bool:
    """Return whether the variable is set and not empty, directly or as a file."""
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def _secret(name: str, default: str) -> str:
    """Return a variable's value, or the stripped text of the file that it names.

    Raises ``ImproperlyConfigured`` when both are given, or the file cannot be read or is empty.
    """
    text_value, file = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if not file:
        return text_value or default
    if text_value:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: unset one of them")
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ImproperlyConfigured(f"{name}_FILE: {file} cannot be read: {reason}") from None
    if not text:
        raise ImproperlyConfigured(f"{name}_FILE: {file} is empty")
    return text


def for_programs() -> dict[str, str]:
    """Return the environment for our processes, with absolute paths, as their folder differs."""
    names = [f"{name}_FILE" for name in FROM_FILES]
    files = {name: os.path.abspath(file) for name in names if (file := os.environ.get(name))}
    return {**os.environ, **files}


def without_given_servers() -> dict[str, str]:
    """Return the environment without files of secrets.

    It is for a stack that has its own store and broker, so that no other server is named.
    """
    hidden_names = {f"{name}_FILE" for name in FROM_FILES}
    return {name: value for name, value in os.environ.items() if name not in hidden_names}
