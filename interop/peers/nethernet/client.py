"""A NetherNet client on aiortc, or on wrtc (libwebrtc) by its module webrtc.aiortc: client.py MODULE URL. It joins,
verifies the server's identity, and obeys lines on standard input: "echo N", "large BYTES", "perhaps" and "close". It
writes a line for each step, and "told" when it is told to join again."""
import asyncio
import base64
import collections
import importlib
import json
import re
import sys
import time
import urllib.request

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

rtc = importlib.import_module(sys.argv[1])
PERHAPS = b"\0perhaps"  # an unreliable message, which is sent until it comes back on either channel
KEY = ec.generate_private_key(ec.SECP384R1())  # it signs its own token, as in tests without Mojang's service


def b64u(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64u(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def sign(text):
    r, s = decode_dss_signature(KEY.sign(text.encode(), ec.ECDSA(hashes.SHA384())))
    return b64u(r.to_bytes(48, "big") + s.to_bytes(48, "big"))


def signed(sdp):
    lines = re.findall(r"^a=fingerprint:(\S+) (\S+)\r?$", sdp, re.M)
    listed = [{"algorithm": algorithm, "digest": digest} for algorithm, digest in lines]
    return b64u(json.dumps({"fingerprint": listed}, separators=(",", ":")).encode())


def with_identity(sdp):
    header, numbers, now = b64u(b'{"alg":"ES384"}'), KEY.public_key().public_numbers(), int(time.time())
    x, y = (b64u(n.to_bytes(48, "big")) for n in (numbers.x, numbers.y))
    claims = {"cpk": {"kty": "EC", "crv": "P-384", "x": x, "y": y}, "iat": now, "exp": now + 60}
    text = header + "." + b64u(json.dumps(claims).encode())
    assertion = {"token": text + "." + sign(text), "fingerprints": header + ".." + sign(header + "." + signed(sdp))}
    identity = {"idp": {"domain": "", "protocol": "default"}, "assertion": json.dumps(assertion)}
    line = "a=identity:" + base64.b64encode(json.dumps(identity).encode()).decode() + "\r\n"
    return sdp.replace("m=application", line + "m=application", 1)


def without_identity(sdp):
    """Verifies the identity, and returns the description without it."""
    line, text = re.search(r"^(a=identity:(\S+)\r\n)", sdp, re.M).groups()
    assertion = json.loads(json.loads(base64.b64decode(text))["assertion"])
    header, claims, own = assertion["token"].split(".")
    cpk = json.loads(unb64u(claims))["cpk"]
    x, y = (int.from_bytes(unb64u(cpk[n]), "big") for n in "xy")
    key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP384R1()).public_key()

    def verify(what, signature):
        raw = unb64u(signature)
        r, s = int.from_bytes(raw[:48], "big"), int.from_bytes(raw[48:], "big")
        key.verify(encode_dss_signature(r, s), what.encode(), ec.ECDSA(hashes.SHA384()))

    verify(header + "." + claims, own)
    header, signature = assertion["fingerprints"].split("..")
    verify(header + "." + signed(sdp), signature)
    return sdp.replace(line, "")


def join(url, offer):
    with urllib.request.urlopen(url + "/v1/join") as response:
        response.read()
    headers = {"Content-Type": "application/sdp"}
    request = urllib.request.Request(url + "/v1/join/2", with_identity(offer).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return without_identity(response.read().decode())


def fragments(message):
    """The parts of a message, each with the number of those that follow before it."""
    parts = [message[at : at + 9999] for at in range(0, len(message), 9999)]
    return [bytes([len(parts) - 1 - i]) + part for i, part in enumerate(parts)]


async def main(url):
    pc = rtc.RTCPeerConnection(rtc.RTCConfiguration(iceServers=[]))
    channels = [
        pc.createDataChannel("ReliableDataChannel"),
        pc.createDataChannel("UnreliableDataChannel", ordered=False, maxRetransmits=0),
    ]
    reliable, opened, trying = channels[0], [], asyncio.Event()
    trying.set()
    awaited, parts, sent = collections.deque(), [], 0  # messages that must come back, in order
    for channel in channels:
        event = asyncio.Event()
        opened.append(event.wait())
        channel.on("open", event.set)
        if channel.readyState == "open":
            event.set()

    def received(data):
        if data == PERHAPS:
            if not trying.is_set():
                print("echoed", flush=True)
            return trying.set()
        parts.append(data[1:])
        if data[0] > 0:
            return
        got = b"".join(parts)
        parts.clear()
        if not awaited and b"join again" in got:
            print("told", flush=True)
            return
        want = awaited.popleft()
        if got != want:
            sys.exit("got %d bytes: %r, want %r" % (len(got), got[:40], want[:40]))
        if not awaited:
            print("echoed", flush=True)

    for channel in channels:
        channel.on("message", received)

    def play(message):
        awaited.append(message)
        for fragment in fragments(message):
            reliable.send(fragment)

    await pc.setLocalDescription(await pc.createOffer())
    answer = await asyncio.to_thread(join, url, pc.localDescription.sdp)
    await pc.setRemoteDescription(rtc.RTCSessionDescription(answer, "answer"))
    await asyncio.gather(*opened)
    print("open", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order, *n = line.split()
        if order == "large":
            play(b"tide" * (int(n[0]) // 4))
        elif order == "perhaps":
            trying.clear()
            while not trying.is_set():
                channels[1].send(PERHAPS)
                await asyncio.sleep(0.2)
        elif order == "echo":
            for i in range(sent, sent + int(n[0])):
                play(b"message %d" % i)
            sent += int(n[0])
        else:
            break
    await pc.close()


asyncio.run(main(sys.argv[2]))
