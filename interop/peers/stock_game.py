"""A game on the original RakNet with packets of its own, which knows nothing of Tidegate.

Usage: stock_game.py PORT
"""
import struct
import sys

from lines import run, tell
from stock_peer import ENDS, GAME, NEW_CONNECTION, Peer, address

CHAT, CHAT_TO_ALL = GAME + 1, GAME + 2  # and a text
MOVE, MOVED = GAME + 3, GAME + 4  # and two floats, high byte first, as RakNet's BitStream writes them
ENTITY = 0x90  # and a kind of two bytes, high byte first

host, port = address(sys.argv[1])
peer = Peer(host, port, clients=10)
tell("listening")


def update():
    """Answers each packet of the game."""
    for data, sender in peer.messages():
        if data[0] == NEW_CONNECTION:
            tell("joined")
        elif data[0] in ENDS:
            tell("left", reason=data[0])
        elif data[0] >= GAME:
            tell("received", payload=data.hex())
        if data[0] == CHAT:
            peer.send(sender, bytes([CHAT_TO_ALL]) + b"you say " + data[1:])
        elif data[0] == MOVE:
            x, y = struct.unpack(">ff", data[1:])
            peer.send(sender, bytes([MOVED]) + struct.pack(">ff", x + 1, y))
        elif data[0] == ENTITY:
            kind, = struct.unpack(">H", data[1:3])
            peer.send(sender, struct.pack(">BH", ENTITY, kind + 1) + data[3:])


run(update, {})
