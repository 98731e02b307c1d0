"""A peer of TestBeside on the original RakNet. A server echoes every message of up to 4,000 bytes.

Usage: beside_stock.py HOST:PORT server|client [port=PORT] [clients=N] [password=WORD] [version=N]

The port is the client's own.
"""
import sys
import time

from lines import run, tell
from stock_peer import ENDS, GAME, NEW_CONNECTION, REQUEST_ACCEPTED, PacketPriority, Peer, address

ECHOED, NUMBERED, PACKET_BYTE = 4000, 5, 0xFE
host, port = address(sys.argv[1])
is_server = sys.argv[2] == "server"
options = dict(option.split("=") for option in sys.argv[3:])
password = options.get("password", "").encode()
if is_server:
    peer = Peer(host, port, clients=int(options.get("clients", 10)), pong=b"stock", password=password)
    tell("listening")
else:
    peer = Peer("0.0.0.0", int(options.get("port", 0)), version=int(options.get("version", 6)))
    tell("begins")
    peer.connect(host, port, password)
others = []


def update():
    """Tells who comes and goes, and what the library says."""
    for data, sender in peer.messages():
        if data[0] == NEW_CONNECTION or data[0] == REQUEST_ACCEPTED:
            others.append(sender)
            tell("joined" if is_server else "connected")
        elif data[0] in ENDS and others:
            tell("left" if is_server else "disconnected", reason=data[0])
        elif data[0] >= GAME:
            tell("received", payload=data[:NUMBERED].hex(), size=len(data))
            if is_server and len(data) <= ECHOED:
                peer.send(sender, data)
        elif not is_server:
            tell("refused", reason=data[0])


def burst(command):
    """Sends numbered messages at once."""
    first = command.get("first", 0)
    priority = getattr(PacketPriority, command.get("priority", "HIGH") + "_PRIORITY")
    for number in range(first, first + command["count"]):
        message = (bytes([PACKET_BYTE]) + number.to_bytes(4, "big")).ljust(command.get("size", 0), b"\0")
        for other in others:
            peer.send(other, message, priority=priority)


def close(command):
    """Closes the connection, behind what waits. A server kicks."""
    for other in others:
        peer.close(other)


def report(command):
    """Tells the round trip that the library shows to the game, in ms."""
    tell("figure", name="round trip", figure=peer.round_trip(others[0]))


run(update, {
    "burst": burst,
    "close": close,
    "leave": lambda command: peer.shutdown(),
    "report": report,
    "pause": lambda command: time.sleep(command["pause"] / 1000),
})
