"""An ENet peer on the C library as Debian packages it. A server echoes every message.

Usage: enet_peer.py PORT client|server [DATA] [checksums] [compress] [queries] [patient] [from=PORT]

DATA is the data of the Connect. Each peer has 4 channels. "patient" raises the time-outs. A client may leave from a port.
A server with "queries" answers getinfo beside its players, as FiveM does.
"""
import ctypes as c
import queue
import sys
import threading
import time

from lines import tell
from libenet import CHANNELS, CONNECT, DISCONNECT, INTERCEPT, RECEIVE, Address, Buffer, Event, enet
import json

FLAGS = {"unreliable": 0, "reliable": 1, "unsequenced": 2}
MODES = {flags: mode for mode, flags in FLAGS.items()}

port, is_server = int(sys.argv[1]), sys.argv[2] == "server"
if enet.enet_initialize() != 0:
    sys.exit("ENet does not start")
address = Address(0, port)
enet.enet_address_set_host_ip(c.byref(address), b"127.0.0.1")
local = address if is_server else Address(0, next((int(a[5:]) for a in sys.argv if a.startswith("from=")), 0))
host = enet.enet_host_create(c.byref(local), 200 if is_server else 1, CHANNELS, 0, 0)
if not host:
    sys.exit("no host")
if "checksums" in sys.argv:
    host.contents.checksum = c.cast(enet.enet_crc32, c.c_void_p).value
if "compress" in sys.argv:
    enet.enet_host_compress_with_range_coder(host)


@INTERCEPT
def intercept(one, _):
    """Answers a query. 1 says that the datagram is none of ENet's."""
    received = one.contents
    query = c.string_at(received.received, received.received_size)
    if not query.startswith(b"\xff\xff\xff\xffgetinfo"):
        return 0
    text = b"\xff\xff\xff\xffinfoResponse\n\\clients\\1\\challenge\\" + query[12:].strip() + b"\\gamename\\CitizenFX"
    enet.enet_socket_send(received.socket, c.byref(received.sender), c.byref(Buffer(text, len(text))), 1)
    return 1


if "queries" in sys.argv:
    host.contents.intercept = c.cast(intercept, c.c_void_p).value
peer = None
if is_server:
    tell("listening")
else:
    peer = enet.enet_host_connect(host, c.byref(address), CHANNELS, int(sys.argv[3]))

orders = queue.SimpleQueue()


def read():
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)


threading.Thread(target=read, daemon=True).start()


def send(to, channel, payload, flags):
    enet.enet_peer_send(to, channel, enet.enet_packet_create(payload, len(payload), flags))


def obey(order):
    if order["do"] == "send":
        send(peer, order["channel"], bytes.fromhex(order["payload"]), FLAGS[order["mode"]])
    elif order["do"] == "sleep":
        time.sleep(int(order["payload"], 16))
        tell("awake")
    else:  # leave, or kick the player who came last
        enet.enet_peer_disconnect_later(peer, int(order["payload"], 16))


def service(event):
    global peer
    if event.type == CONNECT:
        peer = event.peer
        if "patient" in sys.argv:
            enet.enet_peer_timeout(peer, 64, 30000, 60000)
        tell("joined" if is_server else "connected", payload=f"{event.data:08x}")
    elif event.type == DISCONNECT:
        tell("left" if is_server else "disconnected", payload=f"{event.data:08x}")
    elif event.type == RECEIVE:
        packet = event.packet.contents
        payload = c.string_at(packet.data, packet.length)
        tell("received", channel=event.channel, mode=MODES[packet.flags & 3], payload=payload.hex())
        if is_server:
            send(event.peer, event.channel, payload, packet.flags & 3)
        enet.enet_packet_destroy(event.packet)


event = Event()
while True:
    wait = 1
    while enet.enet_host_service(host, c.byref(event), wait) > 0:
        service(event)
        wait = 0
    while not orders.empty():
        order = orders.get()
        if order is None:
            sys.exit(0)
        obey(order)
