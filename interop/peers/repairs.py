"""Repairs of pytide-networking 2.1.0a0. Without them it cannot keep a connection."""
import enum

from pytidenetworking import server
from pytidenetworking.utils import converter
from pytidenetworking.utils.notify_sequencer import NotifySequencer
from pytidenetworking.utils.relieble_sequencer import ReliableSequencer

# pytide kept the numbers of Riptide 2.0; these are the numbers of 2.1.
RejectReason = enum.IntEnum(
    "RejectReason", ["NoConnection", "AlreadyConnected", "ServerFull", "Rejected", "Custom"], start=0)


def repair():
    """Repairs the library. Call it before using the library."""
    server.RejectReason = RejectReason
    # The library compares the peer's received messages with its own, and crashes with a negative shift if one direction
    # has many more messages. Each ack also names one message, which the library handles before this call.
    ReliableSequencer.updateReceivedAcks = lambda self, last, earlier: None
    # The library crashes at the first notify message, sent or received, due to a misspelled name. Such a message's
    # acknowledgements have the same fault as above.
    NotifySequencer._lastReceivedSeqId = property(
        lambda self: self.lastReceivedSeqId, lambda self, last: setattr(self, "lastReceivedSeqId", last))
    NotifySequencer.updateReceivedAcks = lambda self, last, earlier: None
    # A notify message with less than 3 bytes ends the process: its header is read as 9 bytes.
    read = converter.ulongFromBits
    converter.ulongFromBits = lambda array, bit: read(bytes(array) + bytes(9), bit)
