"""Reads lines from standard input: the types of a packet's values, and the packet in hexadecimal. Writes the values, and
the packet made again of them."""
import sys

import riptide_message


def text(value):
    if isinstance(value, str):
        return "x" + value.encode().hex()
    if isinstance(value, (list, tuple)):
        return " ".join(map(text, value))
    return str(value).lower()


def again(types, packet):
    reader = riptide_message.Reader(packet)
    writer = riptide_message.Writer(reader.id)
    values = []
    for name in types.split(","):
        if name.startswith("bits"):
            values.append(reader.bits(int(name[4:])))
            writer.bits(values[-1], int(name[4:]))
        elif name.endswith("[]"):
            array = reader.array(getattr(reader, name[:-2]))
            writer.array(array, getattr(writer, name[:-2]))
            values += [len(array), *array]
        else:
            values.append(getattr(reader, name)())
            getattr(writer, name)(values[-1])
    return " ".join(map(text, values)) + " " + writer.data().hex()


for line in sys.stdin:
    try:
        print(again(line.split()[0], bytes.fromhex(line.split()[1])), flush=True)
    except ValueError:
        print("short", flush=True)
