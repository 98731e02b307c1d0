"""A client on the original RakNet, as C++ games have it. Usage: stock_client.py PORT [PROTOCOL-VERSION]"""
import sys

from lines import run, tell
from raknet import RakPeer
from stock_messages import GAME, ID, messages, send

peer = RakPeer()
peer.startup(host="127.0.0.1", protocol_version=int(sys.argv[2]) if len(sys.argv) > 2 else 6)
peer.connect("127.0.0.1", int(sys.argv[1]), num_attempts=12, attempt_interval_ms=500)  # as C++ has it
server = None


def update():
    """Tells what the library says. What ends an attempt, or a connection, is told by its identifier."""
    global server
    for data, sender in messages(peer):
        if data[0] == ID.ID_CONNECTION_REQUEST_ACCEPTED:
            server = sender
            tell("connected")
        elif data[0] >= GAME:
            tell("received", reliable=True, payload=data.hex())
        elif data[0] in (ID.ID_DISCONNECTION_NOTIFICATION, ID.ID_CONNECTION_LOST) and server is not None:
            tell("disconnected", reason=data[0])
        else:
            tell("refused", reason=data[0])


run(update, {
    "send": lambda command: send(peer, server, bytes.fromhex(command["payload"]), command["reliable"]),
    "leave": lambda command: peer.shutdown(1),
})
