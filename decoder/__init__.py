"""pgoutput, PostgreSQL's logical replication output plugin, as a pure library.

Sans-I/O: bytes in, events out. Standard library only. Malformed input raises
``ProtocolError`` and nothing else.

``Assembler`` takes the frames of a session and gives transaction events;
``decode_message`` decodes a single message; ``decode_frame`` and
``StandbyStatusUpdate`` are the layer below. ``TestDecodingAssembler`` and
``Wal2JsonAssembler`` take the rows of two other plugins and give the same
events, with what these do not tell left unknown.
"""

from decoder.assembler import Assembler as Assembler
from decoder.binary import NOT_DECODED as NOT_DECODED
from decoder.binary import BinaryDecoder as BinaryDecoder
from decoder.binary import UserType as UserType
from decoder.boundaries import Begin as Begin
from decoder.boundaries import BeginPrepare as BeginPrepare
from decoder.boundaries import Commit as Commit
from decoder.boundaries import CommitPrepared as CommitPrepared
from decoder.boundaries import Origin as Origin
from decoder.boundaries import Prepare as Prepare
from decoder.boundaries import RollbackPrepared as RollbackPrepared
from decoder.boundaries import StreamAbort as StreamAbort
from decoder.boundaries import StreamCommit as StreamCommit
from decoder.boundaries import StreamPrepare as StreamPrepare
from decoder.boundaries import StreamStart as StreamStart
from decoder.boundaries import StreamStop as StreamStop
from decoder.decode import Message as Message
from decoder.decode import decode_message as decode_message
from decoder.events import Change as Change
from decoder.events import ChangeRun as ChangeRun
from decoder.events import Event as Event
from decoder.events import OpenTransaction as OpenTransaction
from decoder.events import PreparedCommitted as PreparedCommitted
from decoder.events import PreparedRolledBack as PreparedRolledBack
from decoder.events import RelationSeen as RelationSeen
from decoder.events import StandaloneMessage as StandaloneMessage
from decoder.events import SubtransactionAborted as SubtransactionAborted
from decoder.events import TransactionAborted as TransactionAborted
from decoder.events import TransactionCommitted as TransactionCommitted
from decoder.events import TransactionOpened as TransactionOpened
from decoder.events import TransactionPrepared as TransactionPrepared
from decoder.events import Truncation as Truncation
from decoder.events import TypeSeen as TypeSeen
from decoder.events import UnknownAborted as UnknownAborted
from decoder.lifecycle import Streaming as Streaming
from decoder.messages import NOT_SENT as NOT_SENT
from decoder.messages import UNCHANGED as UNCHANGED
from decoder.messages import Column as Column
from decoder.messages import Delete as Delete
from decoder.messages import Insert as Insert
from decoder.messages import LogicalMessage as LogicalMessage
from decoder.messages import NoValue as NoValue
from decoder.messages import OldKind as OldKind
from decoder.messages import Relation as Relation
from decoder.messages import ReplicaIdentity as ReplicaIdentity
from decoder.messages import Truncate as Truncate
from decoder.messages import TupleData as TupleData
from decoder.messages import Type as Type
from decoder.messages import Undecoded as Undecoded
from decoder.messages import Update as Update
from decoder.messages import Value as Value
from decoder.plugins.collecting import ColumnsOf as ColumnsOf
from decoder.plugins.collecting import PluginRow as PluginRow
from decoder.plugins.test_decoding import TEST_DECODING_OPTIONS as TEST_DECODING_OPTIONS
from decoder.plugins.test_decoding import TestDecodingAssembler as TestDecodingAssembler
from decoder.plugins.wal2json import Wal2JsonAssembler as Wal2JsonAssembler
from decoder.plugins.wal2json import wal2json_options as wal2json_options
from decoder.reader import ProtocolError as ProtocolError
from decoder.replication import PrimaryKeepalive as PrimaryKeepalive
from decoder.replication import StandbyStatusUpdate as StandbyStatusUpdate
from decoder.replication import XLogData as XLogData
from decoder.replication import decode_frame as decode_frame
from decoder.replication import xlogdata_frame as xlogdata_frame
from decoder.scalars import INFINITY_US as INFINITY_US
from decoder.scalars import LSN as LSN
from decoder.scalars import MINUS_INFINITY_US as MINUS_INFINITY_US
from decoder.scalars import POSTGRES_EPOCH as POSTGRES_EPOCH
from decoder.scalars import XID as XID
from decoder.scalars import datetime_from_us as datetime_from_us
from decoder.scalars import us_from_datetime as us_from_datetime
