"""The line protocol between a peer and its test: commands in on stdin, events out on stdout, one JSON object a line."""
import json
import queue
import sys
import threading
import time


def tell(event, **fields):
    """Writes one event."""
    print(json.dumps({"event": event, **fields}), flush=True)


def run(update, commands):
    """Updates a Riptide peer, which works by polling, and runs commands between, until stdin ends."""
    waiting = queue.SimpleQueue()

    def read():
        for line in sys.stdin:
            waiting.put(json.loads(line))
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        update()
        while not waiting.empty():
            command = waiting.get()
            if command is None:
                return
            commands[command["do"]](command)
        time.sleep(0.002)
