"""A server on the original RakNet that echoes every message.

Usage: stock_server.py PORT [MOST-CLIENTS [PROTOCOL-VERSION]]
"""
import sys

from lines import run, tell
from raknet import RakPeer
from stock_messages import GAME, ID, messages, send

peer = RakPeer()
peer.offline_ping_response = b"stock"
peer.max_incoming_connections = int(sys.argv[2]) if len(sys.argv) > 2 else 10
peer.startup(host="127.0.0.1", port=int(sys.argv[1]), max_connections=20,
             protocol_version=int(sys.argv[3]) if len(sys.argv) > 3 else 6)
tell("listening")
clients = []


def update():
    """Echoes messages, and tells who comes and goes."""
    for data, sender in messages(peer):
        if data[0] == ID.ID_NEW_INCOMING_CONNECTION:
            clients.append(sender)
            tell("joined")
        elif data[0] in (ID.ID_DISCONNECTION_NOTIFICATION, ID.ID_CONNECTION_LOST):
            tell("left", reason=data[0])
        elif data[0] >= GAME:
            tell("received", payload=data.hex())
            send(peer, sender, data, True)


run(update, {
    "flood": lambda command: send(peer, clients[-1], bytes([GAME]) * command["id"] * 1000, True),  # kilobytes
})
