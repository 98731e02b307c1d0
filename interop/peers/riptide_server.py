"""A Riptide server that echoes every message and takes every client, unless its connect data is one of the words below.

Usage: riptide_server.py PORT udp|tcp [MOST-CLIENTS [steady]]

"steady" turns the rule about poor connections off: the library uses the records of messages again with the number of
their transmissions. After 15 of all messages it sends no Welcome to anybody else.
"""
import sys

from lines import run, tell
from pytidenetworking.message import create
from pytidenetworking.server import Server
from repairs import RejectReason, repair
from riptide_message import attachment, notice, unread
from transports import SERVERS

REFUSE = b"refuse me".hex()
REFUSE_WITH_DATA = b"refuse me and say why".hex()

repair()
server = Server(SERVERS[sys.argv[2]]())


def decide(connection, message):
    """Answers a connection attempt, which has been told that it is pending."""
    connection.canQualityDisconnect = "steady" not in sys.argv
    data = unread(message)
    tell("asked", payload=data)
    if data == REFUSE:
        server.reject(connection)
    elif data == REFUSE_WITH_DATA:
        # The public method ignores its data: it never uses the reason for data.
        server._Server__reject(connection, RejectReason.Custom, attachment(b"no shoes, no service".hex()))
    else:
        server.accept(connection)


def echo(connection, number, message):
    """Sends a message back as it came."""
    payload = unread(message)
    tell("received", client=connection.id, id=number, reliable=message.header == 7, payload=payload)
    answer = create(message.header, number)
    answer.putBytes(bytes.fromhex(payload))
    server.send(answer, connection)


def join(connection):
    """Echoes the notify messages of a new client, which are news of the connection."""
    connection.notifyReceived += lambda message: server.send(notice(unread(message)), connection)
    tell("joined", client=connection.id)


server.handleConnection = decide
server.ClientConnected += join
server.ClientDisconnected += lambda connection, reason: tell("left", client=connection.id, reason=int(reason))
server.MessageReceived += echo
server.start(int(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 5)
tell("listening")
run(server.update, {
    "kick": lambda command: server.disconnectClient(command["client"], attachment(command["payload"])),
})
