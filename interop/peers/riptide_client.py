"""A Riptide client. Usage: riptide_client.py PORT udp|tcp [CONNECT-DATA-IN-HEX [TIMEOUT-IN-MS]]"""
import sys

from lines import run, tell
from pytidenetworking.client import Client
from repairs import repair
from riptide_message import attachment, notice, outgoing, unread
from transports import CLIENTS

repair()
client = Client(CLIENTS[sys.argv[2]]())
client.Connected += lambda: tell("connected", client=client.id)
# pytide does not pass on the reason of a refusal, but it is the first byte of its message. No message: no answer.
client.ConnectionFailed += lambda message: tell(
    "refused", reason=message.data[0] if message else None, payload=unread(message))
client.Disconnected += lambda reason, message: tell("disconnected", reason=int(reason), payload=unread(message))
client.ClientConnected += lambda other: tell("joined", client=other)
client.ClientDisconnected += lambda other: tell("left", client=other)
client.MessageReceived += lambda connection, number, message: tell(
    "received", id=number, reliable=message.header == 7, payload=unread(message))
client._useMessageHandlers = False  # the event above suffices

if len(sys.argv) > 4:
    client.timeoutTime = int(sys.argv[4])
data = attachment(sys.argv[3]) if len(sys.argv) > 3 else None
client.connect(("127.0.0.1", int(sys.argv[1])), message=data)
# Notify messages are events of the connection, which the client does not pass on.
client._Client__connection.notifyReceived += lambda message: tell("notified", payload=unread(message))
run(client.update, {
    "send": lambda command: client.send(outgoing(command)),
    "notify": lambda command: client.send(notice(command["payload"])),
    "leave": lambda command: client.disconnect(),
})
