"""The checker's tests record with a receiver in a thread, as the receiver's own tests do."""

from tests.receiver.conftest import record

__all__ = ["record"]
