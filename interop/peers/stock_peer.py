"""One interface to two builds of the original RakNet: raknet 0.3.0 speaks protocol 6, over IPv4 only. raknet 0.4.0 speaks
protocol 11, also over IPv6."""
import time

from raknet import PacketPriority, PacketReliability

try:
    from raknet import raw
except ImportError:  # 0.3.0
    raw = None
    from raknet import RakPeer

# First bytes of messages.
REQUEST_ACCEPTED = 16
NEW_CONNECTION = 19
DISCONNECTION = 21
LOST = 22
TIMESTAMP = 27
GAME = 134  # the first one that is the game's

ENDS = (DISCONNECTION, LOST)
STAMPED = 9  # bytes of the identifier and the time


def address(text):
    """Splits PORT or HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


class Peer:
    """A client, or a server for some clients."""

    def __init__(self, host, port=0, clients=0, pong=b"", version=6, password=b""):
        self._start = time.time()
        if raw is None:
            self._peer = RakPeer()
            self._peer.offline_ping_response = pong
            self._peer.max_incoming_connections = clients
            self._peer.startup(host=host, port=port, max_connections=clients + 10, protocol_version=version)
            return
        at = raw.SocketDescriptor(port, host)
        at.socket_family = 10 if ":" in host else 2  # Linux's
        self._peer = raw.RakPeer()
        started = self._peer.startup(clients + 10, [at])
        if started != raw.StartupResult.RAKNET_STARTED:
            raise RuntimeError(started)
        self._peer.set_maximum_incoming_connections(clients)
        self._peer.set_offline_ping_response(pong)
        if password:
            self._peer.set_incoming_password(password)

    def connect(self, host, port, password=b""):
        """Begins a connection, as often and as long as C++ does by default."""
        if raw is None:
            self._peer.connect(host, port, num_attempts=12, attempt_interval_ms=500)
        else:
            self._peer.connect(host, port, password)

    def messages(self):
        """Yields each message that waits, with its sender."""
        while (packet := self._peer.receive()) is not None:
            yield packet.data, packet.system_address

    def send(self, to, payload, reliable=True, priority=PacketPriority.HIGH_PRIORITY):
        """Sends a message, as an ordered one if it is to be reliable."""
        mode = PacketReliability.RELIABLE_ORDERED if reliable else PacketReliability.UNRELIABLE
        if raw is None:
            self._peer.send(payload, priority, mode, 0, to)
        else:
            self._peer.send(payload, priority, mode, 0, raw.AddressOrGUID(to), False)

    def burst(self, to, count):
        """Sends numbered messages at once, the last of them with a higher priority."""
        for i in range(count):
            last = i == count - 1
            priority = PacketPriority.HIGH_PRIORITY if last else PacketPriority.MEDIUM_PRIORITY
            self.send(to, bytes([0xfe, i >> 8, i & 255]), priority=priority)

    def close(self, other):
        """Closes a connection when what waits has been sent. 0.3.0 can only end all at once."""
        if raw is None:
            self._peer.shutdown(5)
        else:
            self._peer.close_connection(raw.AddressOrGUID(other), True)

    def clock(self):
        """Returns the library's clock, in milliseconds. 0.3.0 does not tell it: it begins with the first peer."""
        return raw.get_time() if raw else int((time.time() - self._start) * 1000)

    def stamp(self, to, payload):
        """Sends the time, and a payload behind it. The library converts the time to the receiver's clock."""
        self.send(to, bytes([TIMESTAMP]) + self.clock().to_bytes(8, "big") + payload)

    def stamped(self, data):
        """Returns the age of a message with a time in milliseconds, and the payload behind the time."""
        age = self.clock() - int.from_bytes(data[1:STAMPED], "big")
        return (age + (1 << 63)) % (1 << 64) - (1 << 63), data[STAMPED:]  # the clocks wrap

    def round_trip(self, other):
        """Returns the last ping in milliseconds. 0.3.0 does not tell it."""
        return self._peer.get_last_ping(raw.AddressOrGUID(other)) if raw else -1

    def external(self, other):
        """Returns our own address as the other side has told it, as HOST|PORT."""
        return self._peer.get_external_id(other).to_string() if raw else ""

    def shutdown(self):
        """Says goodbye and ends."""
        self._peer.shutdown(1 if raw is None else 1000)
