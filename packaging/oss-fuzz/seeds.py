"""Writes the datagrams of captures into a zip file, each once: seeds.py FOLDER FILE."""
import gzip
import json
import pathlib
import sys
import zipfile

MOST = 2000  # seeds: libFuzzer runs all of them at each start

seeds = {}
for capture in sorted(pathlib.Path(sys.argv[1]).rglob("*.jsonl*")):
    text = capture.read_bytes()
    if capture.suffix == ".gz":
        text = gzip.decompress(text)
    for line in text.splitlines():
        datagram = bytes.fromhex(json.loads(line).get("hex", ""))
        if datagram and len(seeds) < MOST:
            seeds[datagram] = f"{len(seeds):04}"
with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as out:
    for datagram, name in seeds.items():
        out.writestr(name, datagram)
