"""pgoutput, PostgreSQL's logical replication output plugin, as a pure library.

Sans-I/O: bytes in, events out. Standard library only. Malformed input raises
``ProtocolError`` and nothing else.

``assembler.Assembler`` takes the frames of a session and gives transaction
events; ``decode.decode_message`` decodes a single message; ``replication`` is
the layer below. ``plugins`` takes the rows of two other plugins and gives the
same events, with what these do not tell left unknown. Nothing is imported
here: most who need ``scalars`` need nothing else.
"""
