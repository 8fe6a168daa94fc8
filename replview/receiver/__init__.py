"""The process that reads a slot: from the wire, through the decoder, into the store."""
