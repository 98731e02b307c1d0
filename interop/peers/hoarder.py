"""RakNet clients that want all memory and all sessions of a proxy. Written from the protocol's documents alone.

    hoarder.py PORT SOURCE KIND PLAYERS SECONDS

KIND is what each client does once it has joined: "splits" sends all parts but one of large messages, "early" sends
ordered messages behind one that never comes, "sessions" only stays. "streams" opens TCP connections and says nothing.
A client that was ended joins again. It prints a line of JSON each second, and at the end.
"""
import json
import os
import select
import socket
import struct
import sys
import time

MAGIC = bytes.fromhex("00ffff00fefefefefdfdfdfd12345678")
PART = 1300


def address(port):
    return b"\x04" + bytes(255 - b for b in (127, 0, 0, 1)) + struct.pack(">H", port)


class Client:
    def __init__(self, port, source, kind):
        self.port, self.source, self.kind = port, source, kind
        self.socket = None
        self.begin()

    def begin(self):
        if self.socket:
            self.socket.close()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.source, 0))
        self.socket.setblocking(False)
        self.socket.connect(("127.0.0.1", self.port))
        self.guid = os.urandom(8)
        self.number = self.reliable = self.order = self.split = 0
        self.state, self.heard, self.asked, self.pinged = "new", time.time(), 0, 0
        self.backlog = []

    def write(self, b):
        try:
            self.socket.send(b)
        except OSError:
            pass

    def frame(self, payload, ordered=None, part=None):
        flags = 0x60 if ordered is not None else 0x40
        b = struct.pack(">BH", flags | (0x10 if part else 0), 8 * len(payload))
        b += self.reliable.to_bytes(3, "little")
        self.reliable += 1
        if ordered is not None:
            b += ordered.to_bytes(3, "little") + b"\x05"
        if part:
            b += struct.pack(">IHI", *part)
        self.write(b"\x84" + self.number.to_bytes(3, "little") + b + payload)
        self.number += 1

    def ask(self, now):
        if now - self.heard > 3:
            self.begin()
        if now - self.asked < 0.5:
            return
        self.asked = now
        if self.state == "new":
            self.write(b"\x05" + MAGIC + b"\x0b" + bytes(1400 - 18))
        elif self.state == "granted":
            self.frame(b"\x09" + self.guid + struct.pack(">q", 0) + b"\x00")

    def read(self, now):
        while True:
            try:
                b = self.socket.recv(2048)
            except OSError:
                return
            self.heard = now
            if b[0] == 0x06 and self.state == "new":
                cookie = b[26:30] + b"\x00" if b[25] else b""
                self.write(b"\x07" + MAGIC + cookie + address(self.port) + struct.pack(">H", 1400) + self.guid)
            elif b[0] == 0x08 and self.state == "new":
                self.state, self.asked = "granted", 0
            elif b[0] in (0x14, 0x15):
                self.state, self.refused = "refused", now
            elif b[0] & 0xF0 == 0x80 and len(b) > 4:
                n = b[1:4]
                self.write(b"\xc0\x00\x01\x01" + n)
                if self.state == "granted" and b"\x10\x04" in b:
                    self.state = "joined"
                    empty = b"\x04\xff\xff\xff\xff\x00\x00"
                    self.frame(b"\x13" + address(self.port) + empty * 20 + bytes(16))
                    self.load()
                elif self.state == "joined" and len(b) < 20 and b[-1] == 0x15:
                    self.begin()  # ended by the proxy

    def load(self):
        if self.kind == "splits":
            parts = 480
            for message in range(8):
                self.backlog += [(None, (parts, message, i)) for i in range(parts) if i != 7]
        elif self.kind == "early":
            self.backlog += [(i, None) for i in range(1, 1900)]

    def act(self, now):
        if self.state == "refused":
            if now - self.refused > 1:
                self.begin()
            return
        if self.state != "joined":
            self.ask(now)
            return
        for ordered, part in self.backlog[:20]:
            self.frame(b"\xfe" * PART, ordered, part)
        del self.backlog[:20]
        if now - self.pinged > 2:
            self.pinged = now
            self.frame(b"\x00" + struct.pack(">q", int(now * 1000)))
        if now - self.heard > 8:
            self.begin()


def hoard_streams(port, source, many, until):
    open_ = []
    refused, told = 0, 0
    while (now := time.time()) < until:
        if now - told > 1:
            told = now
            print(json.dumps({"event": "hoarding", "refused": refused}), flush=True)
        while len(open_) < many:
            s = socket.socket()
            s.bind((source, 0))
            try:
                s.connect(("127.0.0.1", port))
            except OSError:
                refused += 1
                break
            open_.append(s)
        for s in select.select(open_, [], [], 0.2)[0]:
            open_.remove(s)
            s.close()
            refused += 1
        time.sleep(0.02)
    print(json.dumps({"event": "left", "refused": refused}), flush=True)


def main():
    port, source, kind, many, seconds = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
    until = time.time() + seconds
    if kind == "streams":
        return hoard_streams(port, source, many, until)
    clients = [Client(port, source, kind) for _ in range(many)]
    told = 0
    while (now := time.time()) < until:
        for c in clients:
            c.read(now)
            c.act(now)
        if now - told > 1:
            told = now
            states = [c.state for c in clients]
            sent = sum(not c.backlog for c in clients if c.state == "joined")
            print(json.dumps({"event": "hoarding", "joined": states.count("joined"),
                              "refused": states.count("refused"), "loaded": sent}), flush=True)
        time.sleep(0.01)
    print(json.dumps({"event": "left"}), flush=True)


main()
