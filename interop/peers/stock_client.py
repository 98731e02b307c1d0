"""A client on the original RakNet, as C++ games have it. Usage: stock_client.py PORT|HOST:PORT [PROTOCOL-VERSION]"""
import sys

from lines import run, tell
from stock_peer import ENDS, GAME, REQUEST_ACCEPTED, TIMESTAMP, Peer, address

host, port = address(sys.argv[1])
peer = Peer("::1" if ":" in host else "127.0.0.1", version=int(sys.argv[2]) if len(sys.argv) > 2 else 6)
peer.connect(host, port)
server = None


def update():
    """Tells what the library says. What ends an attempt, or a connection, is told by its identifier."""
    global server
    for data, sender in peer.messages():
        if data[0] == REQUEST_ACCEPTED:
            server = sender
            tell("connected", payload=peer.external(server))
        elif data[0] == TIMESTAMP:
            age, payload = peer.stamped(data)
            tell("stamped", age=age, payload=payload.hex())
        elif data[0] >= GAME:
            tell("received", reliable=True, payload=data.hex())
        elif data[0] in ENDS and server is not None:
            tell("disconnected", reason=data[0])
        else:
            tell("refused", reason=data[0])


run(update, {
    "send": lambda command: peer.send(server, bytes.fromhex(command["payload"]), command["reliable"]),
    "burst": lambda command: peer.burst(server, command["id"]),
    "stamp": lambda command: peer.stamp(server, bytes.fromhex(command["payload"])),
    "leave": lambda command: peer.shutdown(),
})
