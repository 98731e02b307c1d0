"""A peer of TestBeside on the C library of ENet. A server echoes every message of up to 4,000 bytes.

Usage: beside_enet.py HOST:PORT server|client [port=PORT] [timeout=LIMIT,MINIMUM,MAXIMUM] [compress=yes]

The port is the client's own. The time-outs are those of enet_peer_timeout.
"""
import ctypes as c
import sys
import time

from libenet import CHANNELS, CONNECT, DISCONNECT, RECEIVE, Address, Event, enet
from lines import run, tell

ECHOED, NUMBERED, PACKET_BYTE, RELIABLE = 4000, 5, 0xFE, 1
is_server = sys.argv[2] == "server"
options = dict(option.split("=") for option in sys.argv[3:])
if enet.enet_initialize() != 0:
    sys.exit("ENet does not start")


def at(place):
    """Returns HOST:PORT as the library's."""
    name, port = place.rsplit(":", 1)
    address = Address(0, int(port))
    enet.enet_address_set_host_ip(c.byref(address), name.encode())
    return address


own = at(sys.argv[1] if is_server else "0.0.0.0:" + options.get("port", "0"))
host = enet.enet_host_create(c.byref(own), 200 if is_server else 1, CHANNELS, 0, 0)
if not host:
    sys.exit("no host")
if "compress" in options:
    enet.enet_host_compress_with_range_coder(host)
peer = None
leaving = False


def join():
    """Begins a connection."""
    global peer
    tell("begins")
    peer = enet.enet_host_connect(host, c.byref(at(sys.argv[1])), CHANNELS, 0)


def update():
    """Takes what has arrived, and sends what waits."""
    global peer
    event = Event()
    while enet.enet_host_service(host, c.byref(event), 0) > 0:
        if event.type == CONNECT:
            if "timeout" in options:
                enet.enet_peer_timeout(event.peer, *map(int, options["timeout"].split(",")))
            tell("joined" if is_server else "connected")
        elif event.type == DISCONNECT:
            peer = None
            if leaving:
                sys.exit(0)
            tell("left" if is_server else "disconnected", reason=event.data)
        elif event.type == RECEIVE:
            packet = event.packet.contents
            payload = c.string_at(packet.data, packet.length)
            tell("received", payload=payload[:NUMBERED].hex(), size=len(payload))
            if is_server and len(payload) <= ECHOED:
                enet.enet_peer_send(event.peer, event.channel, packed(payload))
            enet.enet_packet_destroy(event.packet)


def packed(payload):
    """Returns a reliable packet."""
    return enet.enet_packet_create(payload, len(payload), RELIABLE)


def burst(command):
    """Sends numbered messages at once."""
    first = command.get("first", 0)
    for number in range(first, first + command["count"]):
        message = (bytes([PACKET_BYTE]) + number.to_bytes(4, "big")).ljust(command.get("size", 0), b"\0")
        if is_server:
            enet.enet_host_broadcast(host, 0, packed(message))
        elif peer:
            enet.enet_peer_send(peer, 0, packed(message))


def again(_):
    """Forgets the connection without a word, and begins another one by the same socket."""
    if peer:
        enet.enet_peer_reset(c.c_void_p(peer))
    join()


def leave(_):
    """Says goodbye, and ends when it is answered."""
    global leaving
    leaving = True
    enet.enet_peer_disconnect(c.c_void_p(peer), 0)


tell("listening") if is_server else join()
run(update, {
    "burst": burst,
    "again": again,
    "leave": leave,
    "pause": lambda command: time.sleep(command["pause"] / 1000),
})
