"""Channels' layer on Redis, under this instance's own keys (``store.instance_identity``)."""

from typing import Any

from channels_redis.core import RedisChannelLayer

from replview.store.connecting import redis_prefix


class InstanceChannelLayer(RedisChannelLayer):  # type: ignore[misc]
    """The prefix is found when the layer is first used: the settings are read without a store."""

    def __init__(self, *args: Any, prefix: str | None = None, **options: Any) -> None:
        super().__init__(*args, prefix=prefix or redis_prefix(), **options)
