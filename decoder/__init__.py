"""pgoutput, PostgreSQL's logical replication output plugin, as a pure library.

Sans-I/O: bytes in, events out. Standard library only. Malformed input raises
``ProtocolError`` and nothing else.

``Assembler`` takes the frames of a session and gives transaction events;
``decode_message`` decodes a single message; ``decode_frame`` and
``StandbyStatusUpdate`` are the layer below. ``TestDecodingAssembler`` and
``Wal2JsonAssembler`` take the rows of two other plugins and give the same
events, with what these do not tell left unknown.
"""

from decoder.assembler import Assembler
from decoder.binary import NOT_DECODED, BinaryDecoder, UserType
from decoder.boundaries import (
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Origin,
    Prepare,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
)
from decoder.decode import Message, decode_message
from decoder.errors import ProtocolError
from decoder.events import (
    Change,
    ChangeRun,
    Event,
    OpenTransaction,
    PreparedCommitted,
    PreparedRolledBack,
    RelationSeen,
    StandaloneMessage,
    SubtransactionAborted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
    TransactionPrepared,
    Truncation,
    TypeSeen,
    UnknownAborted,
)
from decoder.messages import (
    Column,
    Delete,
    Insert,
    LogicalMessage,
    OldKind,
    Relation,
    ReplicaIdentity,
    Truncate,
    Type,
    Update,
)
from decoder.plugins.relations import ColumnsOf
from decoder.plugins.run import PluginRow
from decoder.plugins.test_decoding import TEST_DECODING_OPTIONS, TestDecodingAssembler
from decoder.plugins.wal2json import Wal2JsonAssembler, wal2json_options
from decoder.replication import (
    PrimaryKeepalive,
    StandbyStatusUpdate,
    XLogData,
    decode_frame,
    xlogdata_frame,
)
from decoder.scalars import (
    INFINITY_US,
    LSN,
    MINUS_INFINITY_US,
    POSTGRES_EPOCH,
    XID,
    datetime_from_us,
    us_from_datetime,
)
from decoder.stream import Streaming
from decoder.tuples import NOT_SENT, UNCHANGED, NoValue, TupleData, Undecoded, Value

__all__ = [
    "INFINITY_US",
    "LSN",
    "MINUS_INFINITY_US",
    "NOT_DECODED",
    "NOT_SENT",
    "POSTGRES_EPOCH",
    "TEST_DECODING_OPTIONS",
    "UNCHANGED",
    "XID",
    "Assembler",
    "Begin",
    "BeginPrepare",
    "BinaryDecoder",
    "Change",
    "ChangeRun",
    "Column",
    "ColumnsOf",
    "Commit",
    "CommitPrepared",
    "Delete",
    "Event",
    "Insert",
    "LogicalMessage",
    "Message",
    "NoValue",
    "OldKind",
    "OpenTransaction",
    "Origin",
    "PluginRow",
    "Prepare",
    "PreparedCommitted",
    "PreparedRolledBack",
    "PrimaryKeepalive",
    "ProtocolError",
    "Relation",
    "RelationSeen",
    "ReplicaIdentity",
    "RollbackPrepared",
    "StandaloneMessage",
    "StandbyStatusUpdate",
    "StreamAbort",
    "StreamCommit",
    "StreamPrepare",
    "StreamStart",
    "StreamStop",
    "Streaming",
    "SubtransactionAborted",
    "TestDecodingAssembler",
    "TransactionAborted",
    "TransactionCommitted",
    "TransactionOpened",
    "TransactionPrepared",
    "Truncate",
    "Truncation",
    "TupleData",
    "Type",
    "TypeSeen",
    "Undecoded",
    "UnknownAborted",
    "Update",
    "UserType",
    "Value",
    "Wal2JsonAssembler",
    "XLogData",
    "datetime_from_us",
    "decode_frame",
    "decode_message",
    "us_from_datetime",
    "wal2json_options",
    "xlogdata_frame",
]
