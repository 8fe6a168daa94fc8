"""A peek reads the changes that wait in an idle slot without moving the slot."""
