"""A server on the original RakNet that echoes every message. Where the message has a time, the echo has its own.

Usage: stock_server.py PORT|HOST:PORT [MOST-CLIENTS [PROTOCOL-VERSION]]
"""
import sys

from lines import run, tell
from stock_peer import ENDS, GAME, NEW_CONNECTION, TIMESTAMP, Peer, address

host, port = address(sys.argv[1])
peer = Peer(host, port, clients=int(sys.argv[2]) if len(sys.argv) > 2 else 10, pong=b"stock",
            version=int(sys.argv[3]) if len(sys.argv) > 3 else 6)
tell("listening")
clients = []


def update():
    """Echoes messages, and tells who comes and goes."""
    for data, sender in peer.messages():
        if data[0] == NEW_CONNECTION:
            clients.append(sender)
            tell("joined", payload=peer.external(sender))
        elif data[0] in ENDS:
            tell("left", reason=data[0])
        elif data[0] == TIMESTAMP:
            age, payload = peer.stamped(data)
            tell("stamped", age=age, payload=payload.hex())
            peer.stamp(sender, payload)
        elif data[0] >= GAME:
            tell("received", payload=data.hex())
            peer.send(sender, data)


run(update, {
    "burst": lambda command: peer.burst(clients[-1], command["id"]),
    "flood": lambda command: peer.send(clients[-1], bytes([GAME]) * command["id"] * 1000),  # kilobytes
})
