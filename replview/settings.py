"""Django settings, all read from the environment or from a running demo's ``env`` file.

Every variable is described in the README's table. A command finds its instance in this order:
``REPLVIEW_STORE_URL`` in the environment, then the ``env`` file which a running demo writes into
its data folder (``REPLVIEW_DATA``, by default ``.replview``).
"""

import os
import sys
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import plotly

import replview
from replview.logs import logging_settings

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("REPLVIEW_DATA", ".replview")).absolute()


def _load_instance_file(path: Path) -> None:
    """Take the variables of a running demo, unless the environment already names a store."""
    if "REPLVIEW_STORE_URL" in os.environ:
        return
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, separator, value = line.partition("=")
        if separator and name.startswith("REPLVIEW_"):
            os.environ.setdefault(name, value)


def _database(url: str) -> dict[str, object]:
    """Django's form of a ``postgresql://user:password@host:port/name?option=value`` address."""
    parts = urlsplit(url)
    options: dict[str, object] = dict(parse_qsl(parts.query))
    if os.environ.get("REPLVIEW_DB_POOL") == "1":
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
    }


_load_instance_file(DATA_DIR / "env")

#: The store, as a URL; empty when no instance was found. The receiver connects with it directly.
STORE_URL = os.environ.get("REPLVIEW_STORE_URL", "")
#: Broker of Celery and layer of Channels.
REDIS_URL = os.environ.get("REPLVIEW_REDIS_URL", "redis://127.0.0.1:6379/0")

#: Of the package: ``/metrics`` tells it.
VERSION = replview.__version__
#: Anybody may read ``/metrics``, without a login or a token.
METRICS_PUBLIC = os.environ.get("REPLVIEW_METRICS_PUBLIC") == "1"

#: A demo, with a shop of which nobody minds what happens to it.
DEMO = os.environ.get("REPLVIEW_DEMO") == "1"

SECRET_KEY = os.environ.get("REPLVIEW_SECRET_KEY", "not-for-production-set-REPLVIEW_SECRET_KEY")
DEBUG = os.environ.get("REPLVIEW_DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("REPLVIEW_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [
    origin for origin in os.environ.get("REPLVIEW_TRUSTED_ORIGINS", "").split(",") if origin
]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "channels",
    # Its Swagger UI is served from here, never from elsewhere.
    "ninja",
    "replview",
    "replview.store",
    "replview.web",
]

MIDDLEWARE = [
    # The outermost: static files and answers of the other middlewares get the policy too.
    "replview.web.security.ContentSecurityPolicyMiddleware",
    # Before the host name is checked: a probe asks by address.
    "replview.api.probes.ProbesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "replview.api.request_metrics.RequestMetricsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "replview.urls"
ASGI_APPLICATION = "replview.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "replview.web.shell.shell",
            ],
        },
    },
]

DATABASES = {"default": _database(STORE_URL or "postgresql://127.0.0.1/replview")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            # Listening waits five seconds at a time: the socket must be more patient than that.
            "hosts": [{"address": REDIS_URL, "socket_timeout": 15}],
            "capacity": 100,
            "prefix": "replview",
        },
    },
}

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATICFILES_DIRS = [
    BASE_DIR / "static",
    # plotly's own plotly.js, served from the package that ships it.
    ("plotly", Path(plotly.__file__).parent / "package_data"),
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
# Behind TLS (REPLVIEW_HTTPS=1) cookies are sent over TLS alone.
_HTTPS = os.environ.get("REPLVIEW_HTTPS") == "1"
SESSION_COOKIE_SECURE = _HTTPS
CSRF_COOKIE_SECURE = _HTTPS
if _HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LOGGING = logging_settings(
    os.environ.get("REPLVIEW_LOG_FORMAT", "text"), os.environ.get("REPLVIEW_LOG_LEVEL", "INFO")
)
if "pytest" in sys.modules:
    LOGGING["root"] = {"handlers": [], "level": "INFO"}
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
