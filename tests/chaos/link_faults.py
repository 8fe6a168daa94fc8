"""Faults of the network: links of the receiver that fall silent, break, half-close or slow down."""

import time

from tests.chaos.scene import UNDISTURBED, Scene, fault
from tests.chaos.visibility import Stuck

#: The seconds after which a kernel gives up a silent peer, at the settings replview connects with:
#: the store's end is given up by its keepalives (5 s + 2 × 3 s), the client's ends by
#: ``tcp_user_timeout``. A proxy in between acknowledges everything, so the links imitate it.
STORE_GIVES_UP_SECONDS = 11.0
CLIENT_GIVES_UP_SECONDS = {"source": 20.0, "store": 30.0}


@fault(slow=True, bar_seconds=10.0 + 15.0)
def host_vanished(scene: Scene) -> float:
    """Nothing gets through to either server any more and nothing closes; later it comes back."""
    vanished = time.monotonic()
    with _swallowing(scene, "source", "store"):
        time.sleep(STORE_GIVES_UP_SECONDS)
        scene.holder.store_link.drop("server")
        scene.visibility.live_again(scene.before)
    return vanished


@fault(slow=True)
def store_link_silent(scene: Scene) -> float:
    """The link to the store goes silent: nothing gets through, and nothing closes."""
    began = time.monotonic()
    with _swallowing(scene, "store"):
        time.sleep(STORE_GIVES_UP_SECONDS)
        scene.holder.store_link.drop("server")
        try:
            left = CLIENT_GIVES_UP_SECONDS["store"] - STORE_GIVES_UP_SECONDS
            scene.visibility.live_again(scene.before, left)
        except Stuck:
            scene.holder.store_link.drop("client")
            scene.visibility.live_again(scene.before)
    return began


@fault(slow=True)
def source_link_silent(scene: Scene) -> float:
    """The link to the source goes silent until the client's kernel gives it up."""
    with _swallowing(scene, "source"):
        time.sleep(CLIENT_GIVES_UP_SECONDS["source"])
        scene.holder.source_link.drop("client", "server")
    return time.monotonic()


@fault()
def source_link_cut(scene: Scene) -> float:
    """Reset in the middle of a frame."""
    scene.holder.source_link.cut()
    return time.monotonic()


@fault()
def source_link_half_closed(scene: Scene) -> float:
    """One direction ends, the other stays open."""
    scene.holder.source_link.half_close(scene.rng.choice(["client", "server"]))
    return time.monotonic()


@fault()
def store_link_cut(scene: Scene) -> float:
    """Reset in the middle of a COPY, when one comes by."""
    scene.holder.store_link.cut()
    return time.monotonic()


@fault(shows=UNDISTURBED)
def links_slow(scene: Scene) -> float:
    """Every piece takes a third of a second on its way."""
    links = scene.holder.source_link, scene.holder.store_link
    for link in links:
        link.delay(0.3)
    time.sleep(3)
    for link in links:
        link.flow()
    return time.monotonic()


class _swallowing:
    """Links of the holder let nothing through, until the end of the block."""

    def __init__(self, scene: Scene, *which: str) -> None:
        links = {"source": scene.holder.source_link, "store": scene.holder.store_link}
        self._links = [links[name] for name in which]

    def __enter__(self) -> None:
        for link in self._links:
            link.swallow()

    def __exit__(self, *error: object) -> None:
        for link in self._links:
            link.flow()
