"""What a client and a server on the original RakNet have in common: one round of messages."""
from raknet import MessageIdentifiers as ID
from raknet import PacketPriority, PacketReliability

GAME = ID.ID_USER_PACKET_ENUM  # the first message that is the game's


def messages(peer):
    """Yields each message that waits, with its sender."""
    while (packet := peer.receive()) is not None:
        yield packet.data, packet.system_address


def send(peer, to, payload, reliable):
    """Sends a message, as an ordered one if it is to be reliable."""
    mode = PacketReliability.RELIABLE_ORDERED if reliable else PacketReliability.UNRELIABLE
    peer.send(payload, PacketPriority.HIGH_PRIORITY, mode, 0, to)
