"""Django settings, all read from the environment or from a running demo's ``env`` file.

``runtime/environment.py`` describes every variable. A command finds its instance in this order:
``REPLVIEW_STORE_URL`` in the environment, then the ``env`` file which a running demo writes into
its data folder (``REPLVIEW_DATA``, by default ``.replview``).
"""

import os
import re
import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

import replview
from replview.runtime.environment import is_given, is_on, lists, value, values
from replview.runtime.logs import logging_settings

try:
    # The import raises for an invalid variable, because processes without settings import it.
    from replview.runtime import failpoints
except ValueError as error:
    raise ImproperlyConfigured(str(error)) from None

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(value("REPLVIEW_DATA")).absolute()


#: True in a process that answers requests; ``asgi`` sets the variable.
_ANSWERS_REQUESTS = is_on("REPLVIEW_DB_POOL")


def _load_instance_file(path: Path) -> None:
    """Set the variables of a running demo, unless the environment already names a store."""
    if "REPLVIEW_STORE_URL" in os.environ or is_given("REPLVIEW_STORE_URL"):
        return
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, separator, text = line.partition("=")
        if separator and name.startswith("REPLVIEW_"):
            os.environ.setdefault(name, text)


def _database(url: str) -> dict[str, object]:
    """Return Django's form of ``postgresql://user:password@host:port/name?option=value``."""
    parts = urlsplit(url)
    options: dict[str, object] = dict(parse_qsl(parts.query))
    if _ANSWERS_REQUESTS:
        # A connection that broke with the store is noticed when it is borrowed.
        options["pool"] = {"min_size": 2, "max_size": 12, "timeout": 10}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "replview",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
    }


def _own_folder(name: str) -> Path:
    """Return ``templates`` or ``static``: at the top of a clone, inside the package in a wheel."""
    packaged = Path(__file__).resolve().parent / f"_{name}"
    return packaged if packaged.is_dir() else BASE_DIR / name


_load_instance_file(DATA_DIR / "env")

#: A larger value is stored aside; one above the second limit is not stored, only its size.
VALUE_ASIDE_BYTES = int(value("REPLVIEW_VALUE_ASIDE_MB")) * 1024 * 1024
VALUE_LIMIT_BYTES = int(value("REPLVIEW_VALUE_LIMIT_MB")) * 1024 * 1024
#: Most shapes of a table; a slot stops when a table has more.
VERSIONS_PER_TABLE = int(value("REPLVIEW_VERSIONS_PER_TABLE"))

#: Seconds after which a statement of a web request is cancelled; 0 for never.
WEB_STATEMENT_SECONDS = int(value("REPLVIEW_STATEMENT_SECONDS"))

#: Seconds of silence after which the source, and the receiver, end a session.
WALSENDER_TIMEOUT_SECONDS = float(value("REPLVIEW_WALSENDER_TIMEOUT_SECONDS"))
#: Seconds between two heartbeats, with the idle position, to the store.
HEARTBEAT_SECONDS = float(value("REPLVIEW_HEARTBEAT_SECONDS"))
#: Seconds without a heartbeat after which a receiver has lost its lease.
LEASE_SECONDS = float(value("REPLVIEW_LEASE_SECONDS"))
#: Seconds for one batch after which the store counts as gone, and the receiver releases the slot.
#: Its lease has expired by then, and the next receiver could not read the slot otherwise.
STORE_GONE_SECONDS = float(value("REPLVIEW_STORE_GONE_SECONDS"))

#: The URL of the store; empty when no instance was found. The receiver connects with it directly.
STORE_URL = value("REPLVIEW_STORE_URL")
#: The broker of Celery and the layer of Channels.
REDIS_URL = value("REPLVIEW_REDIS_URL")

#: The prefix of all keys on Redis, after ``replview-``; empty for a digest of the store.
INSTANCE = value("REPLVIEW_INSTANCE")
if not re.fullmatch(r"[A-Za-z0-9_.-]{0,40}", INSTANCE):
    raise ImproperlyConfigured("REPLVIEW_INSTANCE is up to 40 letters, digits, '.', '_' and '-'")

#: The version of the package, which ``/metrics`` reports.
VERSION = replview.__version__
#: True to let anybody read ``/metrics``, without a login or a token.
METRICS_PUBLIC = is_on("REPLVIEW_METRICS_PUBLIC")

#: True in a demo, whose shop may be changed freely.
DEMO = is_on("REPLVIEW_DEMO")

SECRET_KEY = value("REPLVIEW_SECRET_KEY")
#: Former keys: they still unseal, and sign nothing new; see ``replview secrets``.
SECRET_KEY_FALLBACKS = [key for key in value("REPLVIEW_SECRET_KEYS_OLD").split(",") if key]
DEBUG = is_on("REPLVIEW_DEBUG")
#: The points at which a test stops this process.
FAILPOINTS = sorted(failpoints.actions or ())
ALLOWED_HOSTS = values("REPLVIEW_ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = values("REPLVIEW_TRUSTED_ORIGINS")

#: Hosts of sources (``store.reachable``): names, networks, ``socket``; empty for any host.
SOURCE_HOSTS = values("REPLVIEW_SOURCE_HOSTS")
#: Folders below which an address typed into a page may name certificates and password files.
SOURCE_FILES = values("REPLVIEW_SOURCE_FILES")
#: Variables that such an address may name.
SOURCE_VARIABLES = values("REPLVIEW_SOURCE_VARIABLES")
#: Passwords in variables and files that such an address may name, with the hosts of each.
SOURCE_PASSWORDS = lists("REPLVIEW_SOURCE_PASSWORDS")
#: True where addresses come from browsers, not from users of the machine.
SERVES_PAGES = _ANSWERS_REQUESTS or "replview.asgi" in sys.modules

INSTALLED_APPS = [
    # This is first, so that its commands precede those of the same name.
    "replview",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    # axes counts failed logins and refuses more; it has its own tables.
    "axes",
    "django_htmx",
    "channels",
    "replview.store",
    "replview.access",
    "replview.ui",
]

MIDDLEWARE = [
    # This is outermost, so that static files and early responses get the policy too.
    "replview.ui.middleware.ContentSecurityPolicyMiddleware",
    # This precedes the check of the host name, because a probe requests by address.
    "replview.features.monitoring.probes.ProbesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "replview.features.monitoring.request_metrics.RequestMetricsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # A program's token sets the user, as a session does.
    "replview.ui.api.access.TokenMiddleware",
    "replview.access.session_policy.SessionPolicyMiddleware",
    # These follow authentication, and wrap everything that may show rows.
    "replview.access.middleware.AccessRecordMiddleware",
    "replview.access.middleware.VisibilityMiddleware",
    # This limits queries to the sources that the user may see.
    "replview.access.middleware.SeenMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "replview.access.guard.AllowedMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    # This answers API errors in JSON, unless one of the next middlewares has an answer.
    "replview.ui.middleware.ApiFailureMiddleware",
    # This explains a statement that was cancelled after the time limit.
    "replview.ui.middleware.SlowStatementMiddleware",
    # This refuses zero bytes in parameters: no name in PostgreSQL contains one.
    "replview.ui.params.ZeroBytesMiddleware",
]

ROOT_URLCONF = "replview.urls"
ASGI_APPLICATION = "replview.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_own_folder("templates")],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "replview.ui.shell.shell",
            ],
            # The template tags of a feature are in its own folder.
            "libraries": {
                name: f"replview.features.{name}.tags"
                for name in (
                    "alerts",
                    "exports",
                    "in_flight",
                    "relations",
                    "transactions",
                )
            },
        },
    },
]

DATABASES = {"default": _database(STORE_URL or "postgresql://127.0.0.1/replview")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "replview.live.publisher.InstanceChannelLayer",
        "CONFIG": {
            # A listener waits up to five seconds, so the socket's timeout must be longer.
            "hosts": [{"address": REDIS_URL, "socket_timeout": 15}],
            "capacity": 100,
        },
    },
}

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "replview.access.rights.RightsBackend",
]
_VALIDATION = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"{_VALIDATION}.UserAttributeSimilarityValidator"},
    {
        "NAME": f"{_VALIDATION}.MinimumLengthValidator",
        "OPTIONS": {"min_length": int(value("REPLVIEW_PASSWORD_LENGTH"))},
    },
    {"NAME": f"{_VALIDATION}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATION}.NumericPasswordValidator"},
    {"NAME": "replview.access.password_rules.OwnWords"},
    {"NAME": "replview.access.password_rules.Breached"},
]
#: Words that make no password, besides the names of the product and of the hosts.
PASSWORD_WORDS = values("REPLVIEW_PASSWORD_WORDS")
#: A sorted file of SHA-1 digests of passwords that are known from breaches; empty: none.
BREACHED_PASSWORDS = value("REPLVIEW_BREACHED_PASSWORDS")
# Seconds from the login until a session ends, whatever its user does.
SESSION_COOKIE_AGE = round(float(value("REPLVIEW_SESSION_HOURS")) * 3600)
#: Seconds from the last activity until a session ends; 0 for never.
SESSION_IDLE_SECONDS = round(float(value("REPLVIEW_SESSION_IDLE_MINUTES")) * 60)

#: Most sessions of one account: one more ends the session that was not used for longest.
SESSIONS_OF_ACCOUNT = int(value("REPLVIEW_SESSIONS_OF_ACCOUNT"))

# Limits of failed logins: of one name from one address, and of any names from one address.
AXES_FAILURE_LIMIT = int(value("REPLVIEW_LOGIN_FAILURES"))
AXES_COOLOFF_TIME = timedelta(minutes=float(value("REPLVIEW_LOGIN_LOCK_MINUTES")))
LOGIN_FAILURES_OF_ADDRESS = 10 * AXES_FAILURE_LIMIT
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "replview.features.accounts.attempts.address_of"
AXES_RESET_ON_SUCCESS = True
# Keep the end of a lock, so that the announced time is right.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
# The access record already has the logins.
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False
# axes stores the request of a failed login. Hide the passwords of the form that changes one, the
# codes of second factors, and the address to go to next, which may name a row.
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "old", "new", "again", "code", "next"]

#: Accounts with a password that have to set up a second factor; empty: none has to.
REQUIRE_SECOND_FACTOR = value("REPLVIEW_REQUIRE_SECOND_FACTOR")
if REQUIRE_SECOND_FACTOR not in ("", "admins", "all"):
    raise ImproperlyConfigured("REPLVIEW_REQUIRE_SECOND_FACTOR is 'admins', 'all' or empty")

# Single sign-on is on where an issuer is named, which publishes its other addresses.
OIDC_ISSUER = value("REPLVIEW_OIDC_ISSUER").rstrip("/")
OIDC_NAME = value("REPLVIEW_OIDC_NAME")
OIDC_RP_CLIENT_ID = value("REPLVIEW_OIDC_CLIENT_ID")
OIDC_RP_CLIENT_SECRET = value("REPLVIEW_OIDC_CLIENT_SECRET")
OIDC_RP_SCOPES = value("REPLVIEW_OIDC_SCOPES")
OIDC_RP_SIGN_ALGO = value("REPLVIEW_OIDC_SIGN_ALGO")
OIDC_USERNAME_CLAIM = value("REPLVIEW_OIDC_USERNAME_CLAIM")
OIDC_GROUPS_CLAIM = value("REPLVIEW_OIDC_GROUPS_CLAIM")
#: Groups of the provider that have each role: ``admin=dba;operator=backend,sre;viewer=*``.
OIDC_ROLES = value("REPLVIEW_OIDC_ROLES")
OIDC_USE_PKCE = True
#: Which strengths of a sign-in at the provider (``acr``) are enough; empty: any.
OIDC_ACR = values("REPLVIEW_OIDC_ACR")
#: How long ago it may have been; 0: however long.
OIDC_MAX_AGE_SECONDS = round(float(value("REPLVIEW_OIDC_MAX_AGE_MINUTES")) * 60)
OIDC_TIMEOUT = 10
LOGIN_REDIRECT_URL_FAILURE = "/login/?sso=refused"
if OIDC_ISSUER:
    AUTHENTICATION_BACKENDS.append("replview.access.single_sign_on.SingleSignOn")

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False


def _package(name: str) -> Path:
    """Return the folder of a package without importing it."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


STATIC_URL = "static/"
STATICFILES_DIRS = [
    _own_folder("static"),
    # plotly's own plotly.js, served from the package that ships it.
    ("plotly", _package("plotly") / "package_data"),
    # Swagger UI is only files here: as an application every worker would import it.
    _package("ninja") / "static",
]
STATIC_ROOT = DATA_DIR / "static"
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG
# Pages of other sites must not read static files.
SERVESTATIC_ALLOW_ALL_ORIGINS = False

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# Behind a proxy with TLS (REPLVIEW_HTTPS=1), cookies are sent over TLS only, to this host only,
# and HSTS makes browsers use TLS only.
_HTTPS = is_on("REPLVIEW_HTTPS")
SESSION_COOKIE_SECURE = _HTTPS
CSRF_COOKIE_SECURE = _HTTPS
if _HTTPS:
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
    # The proxy must set this header itself, and drop one that a client sent.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = is_on("REPLVIEW_HTTPS_REDIRECT")
    # Metrics are scraped from inside, past the proxy.
    SECURE_REDIRECT_EXEMPT = [r"^metrics$"]
    SECURE_HSTS_SECONDS = int(value("REPLVIEW_HSTS_SECONDS"))
    SECURE_HSTS_INCLUDE_SUBDOMAINS = is_on("REPLVIEW_HSTS_SUBDOMAINS")
# W021: HSTS preload is a decision of the owner of the whole domain. W002: the login page itself
# reports a lock, not the library's middleware.
SILENCED_SYSTEM_CHECKS = ["security.W021", "axes.W002"]

# Limits for forms and API calls, which are small: an alert rule, a list of tables or masks.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5_000
DATA_UPLOAD_MAX_NUMBER_FILES = 0
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

LOGGING = logging_settings(value("REPLVIEW_LOG_FORMAT"), value("REPLVIEW_LOG_LEVEL"))
# axes logs every login, and the access record already has them.
LOGGING.setdefault("loggers", {})["axes"] = {"level": "WARNING"}
if "pytest" in sys.modules:
    LOGGING["root"] = {"handlers": [], "level": "INFO"}
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
