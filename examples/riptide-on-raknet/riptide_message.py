"""Reads and writes Riptide 2.2 messages on a RakNet server behind Tidegate, on a route with envelope = "id".

A RakNet message is: the packet byte 0x86, the message ID (2 bytes, low byte first), the values of the message.
Values are strings of bits, the lowest bit of each byte first. Python 3, no library.
"""
import struct

PACKET_BYTE = 0x86  # packet_id of the route


class Reader:
    """Reads the values of a message in the order in which the game added them. A missing value is a ValueError."""

    def __init__(self, data):
        if len(data) < 3 or data[0] != PACKET_BYTE:
            raise ValueError("not a message of Riptide")
        self.id = int.from_bytes(data[1:3], "little")
        self._rest, self._left = int.from_bytes(data[3:], "little"), 8 * (len(data) - 3)

    def bits(self, n):
        """Reads an unsigned number of n bits."""
        if n > self._left:
            raise ValueError("the message ends before its values")
        value = self._rest & (1 << n) - 1
        self._rest >>= n
        self._left -= n
        return value

    def _as(self, form):
        size = struct.calcsize(form)
        return struct.unpack(form, self.bits(8 * size).to_bytes(size, "little"))[0]

    def byte(self): return self._as("<B")
    def sbyte(self): return self._as("<b")
    def bool(self): return self.bits(1) == 1
    def ushort(self): return self._as("<H")
    def short(self): return self._as("<h")
    def uint(self): return self._as("<I")
    def int(self): return self._as("<i")
    def ulong(self): return self._as("<Q")
    def long(self): return self._as("<q")
    def float(self): return self._as("<f")
    def double(self): return self._as("<d")
    def vector2(self): return tuple(self.float() for _ in "xy")
    def vector3(self): return tuple(self.float() for _ in "xyz")
    def quaternion(self): return tuple(self.float() for _ in "xyzw")

    def varulong(self):
        """Reads the length of a string or an array: 7 bits a byte, the highest bit says that more follow."""
        value = 0
        for shift in range(0, 64, 7):
            byte = self.byte()
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                return value & 2 ** 64 - 1
        raise ValueError("a length has too many bytes")

    def varlong(self):
        value = self.varulong()
        return value >> 1 ^ -(value & 1)

    def array(self, read):
        """Reads an array with its length: message.array(message.int)."""
        return [read() for _ in range(self.varulong())]

    def string(self): return bytes(self.array(self.byte)).decode()


class Writer:
    """Makes a message for a Riptide client."""

    def __init__(self, message_id):
        self._head = struct.pack("<BH", PACKET_BYTE, message_id)
        self._value = self._used = 0

    def data(self):
        """Returns the message: hand it to your RakNet library."""
        return self._head + self._value.to_bytes((self._used + 7) // 8, "little")

    def bits(self, value, n):
        self._value |= (value & (1 << n) - 1) << self._used
        self._used += n
        return self

    def _as(self, form, value):
        text = struct.pack(form, value)
        return self.bits(int.from_bytes(text, "little"), 8 * len(text))

    def byte(self, value): return self._as("<B", value)
    def sbyte(self, value): return self._as("<b", value)
    def bool(self, value): return self.bits(1 if value else 0, 1)
    def ushort(self, value): return self._as("<H", value)
    def short(self, value): return self._as("<h", value)
    def uint(self, value): return self._as("<I", value)
    def int(self, value): return self._as("<i", value)
    def ulong(self, value): return self._as("<Q", value)
    def long(self, value): return self._as("<q", value)
    def float(self, value): return self._as("<f", value)
    def double(self, value): return self._as("<d", value)

    def _floats(self, values):
        for value in values:
            self.float(value)
        return self

    vector2 = vector3 = quaternion = _floats

    def varulong(self, value):
        while value >= 0x80:
            self.byte(value & 0x7f | 0x80)
            value >>= 7
        return self.byte(value)

    def varlong(self, value): return self.varulong((value << 1 ^ value >> 63) & 2 ** 64 - 1)

    def array(self, values, write):
        """Writes an array with its length: message.array(values, message.int)."""
        self.varulong(len(values))
        for value in values:
            write(value)
        return self

    def string(self, text): return self.array(text.encode(), self.byte)
