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
    # Read when it is loaded, as processes do that have no settings.
    from replview.runtime import failpoints
except ValueError as error:
    raise ImproperlyConfigured(str(error)) from None

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(value("REPLVIEW_DATA")).absolute()


#: This process answers requests; ``asgi`` says so.
_WEB = is_on("REPLVIEW_DB_POOL")


def _load_instance_file(path: Path) -> None:
    """Take the variables of a running demo, unless the environment already names a store."""
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
    """Django's form of a ``postgresql://user:password@host:port/name?option=value`` address."""
    parts = urlsplit(url)
    options: dict[str, object] = dict(parse_qsl(parts.query))
    if _WEB:
        # A connection that died with the store is found out when it is borrowed.
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
    """``templates`` or ``static``: at the top of a clone, inside the package in a wheel."""
    packaged = Path(__file__).resolve().parent / f"_{name}"
    return packaged if packaged.is_dir() else BASE_DIR / name


_load_instance_file(DATA_DIR / "env")

#: A value of a source above the first is kept aside, one above the second is only named.
VALUE_ASIDE_BYTES = int(value("REPLVIEW_VALUE_ASIDE_MB")) * 1024 * 1024
VALUE_LIMIT_BYTES = int(value("REPLVIEW_VALUE_LIMIT_MB")) * 1024 * 1024
#: A table with more shapes than this stops its slot.
VERSIONS_PER_TABLE = int(value("REPLVIEW_VERSIONS_PER_TABLE"))

#: A single statement of a request on the store is ended after so many seconds; 0: never.
WEB_STATEMENT_SECONDS = int(value("REPLVIEW_STATEMENT_SECONDS"))

#: A source ends a session of which it has heard nothing for so long, and so does its receiver.
WALSENDER_TIMEOUT_SECONDS = float(value("REPLVIEW_WALSENDER_TIMEOUT_SECONDS"))
#: A heartbeat (and the idle position) goes into the store this often.
HEARTBEAT_SECONDS = float(value("REPLVIEW_HEARTBEAT_SECONDS"))
#: A receiver that sent no heartbeat for this long has lost its lease.
LEASE_SECONDS = float(value("REPLVIEW_LEASE_SECONDS"))
#: A store that takes longer for one batch is taken for gone, and the source's slot let go: our
#: lease has run out by then, and whoever has the slot now could not read it as long as we do.
STORE_GONE_SECONDS = float(value("REPLVIEW_STORE_GONE_SECONDS"))

#: The store, as a URL; empty when no instance was found. The receiver connects with it directly.
STORE_URL = value("REPLVIEW_STORE_URL")
#: Broker of Celery and layer of Channels.
REDIS_URL = value("REPLVIEW_REDIS_URL")

#: What all keys on Redis begin with, besides ``replview-``; empty: a digest of the store.
INSTANCE = value("REPLVIEW_INSTANCE")
if not re.fullmatch(r"[A-Za-z0-9_.-]{0,40}", INSTANCE):
    raise ImproperlyConfigured("REPLVIEW_INSTANCE is up to 40 letters, digits, '.', '_' and '-'")

#: Of the package: ``/metrics`` tells it.
VERSION = replview.__version__
#: Anybody may read ``/metrics``, without a login or a token.
METRICS_PUBLIC = is_on("REPLVIEW_METRICS_PUBLIC")

#: A demo, with a shop of which nobody minds what happens to it.
DEMO = is_on("REPLVIEW_DEMO")

SECRET_KEY = value("REPLVIEW_SECRET_KEY")
#: Keys that were used before: they still unseal and sign nothing new; see ``replview secrets``.
SECRET_KEY_FALLBACKS = [key for key in value("REPLVIEW_SECRET_KEYS_OLD").split(",") if key]
DEBUG = is_on("REPLVIEW_DEBUG")
#: The points at which a test stops this process.
FAILPOINTS = sorted(failpoints.actions or ())
ALLOWED_HOSTS = values("REPLVIEW_ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = values("REPLVIEW_TRUSTED_ORIGINS")

#: Where sources may be (``store.reachable``): names, networks, ``socket``; empty: anywhere.
SOURCE_HOSTS = values("REPLVIEW_SOURCE_HOSTS")
#: Folders below which an address typed into a page may name certificates and password files.
SOURCE_FILES = values("REPLVIEW_SOURCE_FILES")
#: Variables that it may name.
SOURCE_VARIABLES = values("REPLVIEW_SOURCE_VARIABLES")
#: Passwords kept in variables and files that it may name, and the hosts that each is for.
SOURCE_PASSWORDS = lists("REPLVIEW_SOURCE_PASSWORDS")
#: Addresses come from browsers here, not from whoever has the machine.
SERVES_PAGES = _WEB or "replview.asgi" in sys.modules

INSTALLED_APPS = [
    # The first: its commands stand before those of the same name.
    "replview",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    # Counts failed logins and refuses more of them; its own tables.
    "axes",
    "django_htmx",
    "channels",
    "replview.store",
    "replview.access",
    "replview.ui",
]

MIDDLEWARE = [
    # The outermost: static files and answers of the other middlewares get the policy too.
    "replview.ui.middleware.ContentSecurityPolicyMiddleware",
    # Before the host name is checked: a probe asks by address.
    "replview.features.monitoring.probes.ProbesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "replview.features.monitoring.request_metrics.RequestMetricsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # A program's token tells the user as a session does.
    "replview.ui.api.access.TokenMiddleware",
    "replview.access.session_policy.SessionPolicyMiddleware",
    # Within the login, around all that may show rows.
    "replview.access.middleware.AccessRecordMiddleware",
    "replview.access.middleware.VisibilityMiddleware",
    # Only the sources that the user sees are there.
    "replview.access.middleware.SeenMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "replview.access.guard.AllowedMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    # What fails is told to programs as JSON, unless one of the next has an answer.
    "replview.ui.middleware.ApiFailureMiddleware",
    # A statement that took too long is told as that.
    "replview.ui.middleware.SlowStatementMiddleware",
    # So is a zero byte, with which nothing is called.
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
            # Tags of one feature's templates stand in its folder.
            "libraries": {
                name: f"replview.features.{name}.tags"
                for name in (
                    "alerts",
                    "exports",
                    "in_flight",
                    "relations",
                    "rows",
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
            # Listening waits five seconds at a time: the socket must be more patient than that.
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
#: Words that make no password, beside the product's and the host's names.
PASSWORD_WORDS = values("REPLVIEW_PASSWORD_WORDS")
#: A file of the SHA-1 of passwords that are known from breaches, sorted; empty: there is none.
BREACHED_PASSWORDS = value("REPLVIEW_BREACHED_PASSWORDS")
# A session ends so long after the login, whatever is done in it, ...
SESSION_COOKIE_AGE = round(float(value("REPLVIEW_SESSION_HOURS")) * 3600)
#: ... and so long after somebody last did something in it; 0: it does not.
SESSION_IDLE_SECONDS = round(float(value("REPLVIEW_SESSION_IDLE_MINUTES")) * 60)

#: How many sessions an account may have at once: one more ends the one not used for longest.
SESSIONS_OF_ACCOUNT = int(value("REPLVIEW_SESSIONS_OF_ACCOUNT"))

# Failed logins of one name from one address; and whatever the name, from one address.
AXES_FAILURE_LIMIT = int(value("REPLVIEW_LOGIN_FAILURES"))
AXES_COOLOFF_TIME = timedelta(minutes=float(value("REPLVIEW_LOGIN_LOCK_MINUTES")))
LOGIN_FAILURES_OF_ADDRESS = 10 * AXES_FAILURE_LIMIT
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "replview.features.accounts.sign_in.address_of"
AXES_RESET_ON_SUCCESS = True
# So that the time which is told holds.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
# The access record has them.
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False
# It keeps what was sent with a failed try: not the passwords of the form that changes one, nor the
# address to go on to, which may name a row.
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "old", "new", "again", "next"]

# Single sign-on, where an issuer is named; its other addresses are found by asking it.
OIDC_ISSUER = value("REPLVIEW_OIDC_ISSUER").rstrip("/")
OIDC_NAME = value("REPLVIEW_OIDC_NAME")
OIDC_RP_CLIENT_ID = value("REPLVIEW_OIDC_CLIENT_ID")
OIDC_RP_CLIENT_SECRET = value("REPLVIEW_OIDC_CLIENT_SECRET")
OIDC_RP_SCOPES = value("REPLVIEW_OIDC_SCOPES")
OIDC_RP_SIGN_ALGO = value("REPLVIEW_OIDC_SIGN_ALGO")
OIDC_USERNAME_CLAIM = value("REPLVIEW_OIDC_USERNAME_CLAIM")
OIDC_GROUPS_CLAIM = value("REPLVIEW_OIDC_GROUPS_CLAIM")
#: ``admin=dba;operator=backend,sre;viewer=*``: which groups of the provider have which role.
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
    """Where a package stands, which is not loaded for it."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


STATIC_URL = "static/"
STATICFILES_DIRS = [
    _own_folder("static"),
    # plotly's own plotly.js, served from the package that ships it.
    ("plotly", _package("plotly") / "package_data"),
    # Swagger UI. As an application it would be loaded, with all it needs, by every worker too.
    _package("ninja") / "static",
]
STATIC_ROOT = DATA_DIR / "static"
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG
# No page of another site may read them.
SERVESTATIC_ALLOW_ALL_ORIGINS = False

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# Behind a proxy with TLS (REPLVIEW_HTTPS=1) cookies are sent over TLS alone, to this host alone,
# and browsers are told never to come without.
_HTTPS = is_on("REPLVIEW_HTTPS")
SESSION_COOKIE_SECURE = _HTTPS
CSRF_COOKIE_SECURE = _HTTPS
if _HTTPS:
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
    # The proxy must set this header itself, and pass on none that a client sent.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = is_on("REPLVIEW_HTTPS_REDIRECT")
    # Scraped from inside, past the proxy.
    SECURE_REDIRECT_EXEMPT = [r"^metrics$"]
    SECURE_HSTS_SECONDS = int(value("REPLVIEW_HSTS_SECONDS"))
    SECURE_HSTS_INCLUDE_SUBDOMAINS = is_on("REPLVIEW_HSTS_SUBDOMAINS")
# To be built into browsers (HSTS preload) is for the owner of the whole domain to decide.
# Who is locked out is told by the login page itself, not by the library's middleware.
SILENCED_SYSTEM_CHECKS = ["security.W021", "axes.W002"]

# A form or a call of the API is small: an alert rule, a list of tables, a fleet of masks.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5_000
DATA_UPLOAD_MAX_NUMBER_FILES = 0
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

LOGGING = logging_settings(value("REPLVIEW_LOG_FORMAT"), value("REPLVIEW_LOG_LEVEL"))
# It tells of every login; the access record has them.
LOGGING.setdefault("loggers", {})["axes"] = {"level": "WARNING"}
if "pytest" in sys.modules:
    LOGGING["root"] = {"handlers": [], "level": "INFO"}
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
