"""The receiver reads a slot: it takes frames from the wire, decodes them and stores the changes."""
