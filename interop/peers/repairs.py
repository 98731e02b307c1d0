"""Repairs of pytide-networking 2.1.0a0, without which it cannot hold a conversation with anybody."""
import enum

from pytidenetworking import server
from pytidenetworking.utils.relieble_sequencer import ReliableSequencer

# It kept the numbers of Riptide 2.0; these are what 2.1 puts on the wire.
server.RejectReason = enum.IntEnum(
    "RejectReason", ["NoConnection", "AlreadyConnected", "ServerFull", "Rejected", "Custom"], start=0)

# It compares what the peer has received with what it has received itself, and dies of a negative shift when many more
# messages go one way than the other. Each ack also names one message, which is dealt with before this is called.
ReliableSequencer.updateReceivedAcks = lambda self, last, earlier: None
