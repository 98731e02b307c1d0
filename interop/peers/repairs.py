"""Repairs of pytide-networking 2.1.0a0, without which it cannot hold a conversation with anybody."""
import enum

from pytidenetworking import server
from pytidenetworking.utils.notify_sequencer import NotifySequencer
from pytidenetworking.utils.relieble_sequencer import ReliableSequencer

# pytide kept the numbers of Riptide 2.0; these are what 2.1 puts on the wire.
RejectReason = enum.IntEnum(
    "RejectReason", ["NoConnection", "AlreadyConnected", "ServerFull", "Rejected", "Custom"], start=0)


def repair():
    """Repairs the library; call it before anything is made of it."""
    server.RejectReason = RejectReason
    # It compares what the peer has received with what it has received itself, and dies of a negative shift when many
    # more messages go one way than the other. Each ack also names one message, which is dealt with before this call.
    ReliableSequencer.updateReceivedAcks = lambda self, last, earlier: None
    # It dies of the first notify message, sent or received, over a name that it misspells; what such a message
    # acknowledges it reckons as above.
    NotifySequencer._lastReceivedSeqId = property(
        lambda self: self.lastReceivedSeqId, lambda self, last: setattr(self, "lastReceivedSeqId", last))
    NotifySequencer.updateReceivedAcks = lambda self, last, earlier: None
