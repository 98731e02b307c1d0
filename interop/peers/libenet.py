"""The part of the C library of ENet 1.3.17 that the peers call, by its names."""
import ctypes as c

enet = c.CDLL("libenet.so.7")


class Address(c.Structure):
    _fields_ = [("host", c.c_uint32), ("port", c.c_uint16)]


class Packet(c.Structure):
    _fields_ = [("references", c.c_size_t), ("flags", c.c_uint32), ("data", c.POINTER(c.c_ubyte)),
                ("length", c.c_size_t)]


class Event(c.Structure):
    _fields_ = [("type", c.c_int), ("peer", c.c_void_p), ("channel", c.c_uint8), ("data", c.c_uint32),
                ("packet", c.POINTER(Packet))]


class Host(c.Structure):
    """The beginning of ENetHost in 1.3.17, up to the last field that has no function to set it."""
    _fields_ = [
        ("socket", c.c_int), ("address", Address), ("bandwidth", c.c_uint32 * 2), ("epoch", c.c_uint32),
        ("mtu", c.c_uint32), ("seed", c.c_uint32), ("recalculate", c.c_int), ("peers", c.c_void_p),
        ("peer_count", c.c_size_t), ("channel_limit", c.c_size_t), ("time", c.c_uint32), ("dispatch", c.c_void_p * 2),
        ("continue_sending", c.c_int), ("packet_size", c.c_size_t), ("header_flags", c.c_uint16),
        ("commands", c.c_ubyte * 48 * 32), ("command_count", c.c_size_t), ("buffers", c.c_size_t * 2 * 65),
        ("buffer_count", c.c_size_t), ("checksum", c.c_void_p), ("compressor", c.c_void_p * 4),
        ("packets", c.c_ubyte * 4096 * 2), ("sender", Address), ("received", c.POINTER(c.c_ubyte)),
        ("received_size", c.c_size_t), ("totals", c.c_uint32 * 4), ("intercept", c.c_void_p),
    ]


enet.enet_host_create.restype = c.POINTER(Host)
enet.enet_host_connect.restype = c.c_void_p
enet.enet_packet_create.restype = c.POINTER(Packet)
enet.enet_packet_destroy.argtypes = [c.POINTER(Packet)]
enet.enet_peer_send.argtypes = [c.c_void_p, c.c_uint8, c.POINTER(Packet)]
enet.enet_host_connect.argtypes = [c.POINTER(Host), c.POINTER(Address), c.c_size_t, c.c_uint32]
enet.enet_peer_disconnect.argtypes = enet.enet_peer_disconnect_later.argtypes = [c.c_void_p, c.c_uint32]
enet.enet_host_create.argtypes = [c.POINTER(Address), c.c_size_t, c.c_size_t, c.c_uint32, c.c_uint32]

INTERCEPT = c.CFUNCTYPE(c.c_int, c.POINTER(Host), c.c_void_p)


class Buffer(c.Structure):
    _fields_ = [("data", c.c_char_p), ("length", c.c_size_t)]


enet.enet_socket_send.argtypes = [c.c_int, c.POINTER(Address), c.POINTER(Buffer), c.c_size_t]
enet.enet_peer_timeout.argtypes = [c.c_void_p, c.c_uint32, c.c_uint32, c.c_uint32]
enet.enet_host_compress_with_range_coder.argtypes = [c.POINTER(Host)]
enet.enet_host_broadcast.argtypes = [c.POINTER(Host), c.c_uint8, c.POINTER(Packet)]

CONNECT, DISCONNECT, RECEIVE = 1, 2, 3
CHANNELS = 4
