"""The ASGI application serves pages over HTTP and live streams over WebSockets."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "replview.settings")
os.environ.setdefault("REPLVIEW_DB_POOL", "1")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

# Set Django up before importing anything that imports models.
http = get_asgi_application()

from replview.access.shares import BoundedShares  # noqa: E402
from replview.live.allowed import SameOrigin  # noqa: E402
from replview.live.events import TOO_MANY  # noqa: E402
from replview.live.sockets import websocket_urlpatterns  # noqa: E402
from replview.ui.serving import BoundedRequests, spare_what_stays  # noqa: E402

application = BoundedShares(
    ProtocolTypeRouter(
        {
            "http": BoundedRequests(http),
            "websocket": AllowedHostsOriginValidator(
                SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))
            ),
        }
    ),
    socket_code=TOO_MANY,
)

spare_what_stays()
