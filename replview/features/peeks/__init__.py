"""Peeks: a look into an idle slot that does not move it."""
