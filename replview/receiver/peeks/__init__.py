"""A look into an idle slot, without moving it."""
