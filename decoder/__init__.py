"""The decoder turns the output of logical decoding plugins into transaction events.

It does no I/O: the caller feeds bytes and gets events. It needs the standard
library only. Malformed input raises ``ProtocolError`` and nothing else.

``assembler.Assembler`` takes the frames of a pgoutput session and returns transaction
events; ``decode.decode_message`` decodes a single message; ``replication`` is
the layer below. ``plugins`` takes the rows of test_decoding and wal2json and returns
the same events; what these plugins do not send stays unknown. This file imports
nothing, because most importers of ``scalars`` need nothing else.
"""
