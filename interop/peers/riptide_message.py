"""Whole-byte payloads as pytide messages."""
from pytidenetworking.message import create, createInternal
from pytidenetworking.message_base import MessageSendMode


def outgoing(command):
    """Returns the message of a send command."""
    mode = MessageSendMode.Reliable if command["reliable"] else MessageSendMode.Unreliable
    message = create(mode, command["id"])
    message.putBytes(bytes.fromhex(command["payload"]))
    return message


def notice(payload):
    """Returns a notify message, which has no ID; payload is hex."""
    message = create(MessageSendMode.Notify, 0)
    message.putBytes(bytes.fromhex(payload))
    return message


def attachment(payload):
    """Returns the data of a connection attempt, a refusal or a kick; payload is hex."""
    message = createInternal()
    message.putBytes(bytes.fromhex(payload))
    return message


def unread(message):
    """Returns the unread rest of a received message, in hex.

    The wire does not say how long a payload is. Its type takes half a byte, so behind a payload of whole bytes half a
    byte of padding is left, which pytide rounds up to a byte of its own.
    """
    if message is None:
        return ""
    return bytes(message.getBytes(len(message.data) - message.readBits // 8 - 1)).hex()
