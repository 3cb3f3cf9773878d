#!/usr/bin/env python3
"""A scripted model on loopback, so that real agent CLIs work without an account or a network.

    model.py --log FILE [--port N] [--seconds N] [--requests N]

Prints its port on stdout. It thinks nothing: `plays.py` chooses the next move from the conversation
alone, so retries, resumed sessions and several agents at once need no state here. It listens on
loopback only, and ends by itself: after its seconds, after its requests, or when its stdin closes.

The log has one JSON line for each request. What an agent did is judged from it and from the files,
never from what the agent says of itself.
"""
import argparse
import gzip
import http.server
import json
import os
import sys
import threading

import plays
import wire

BODY_MAX = 32 << 20


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port, log, requests_max):
        super().__init__(("127.0.0.1", port), Handler)
        self.log, self.left, self.lock = log, requests_max, threading.Lock()

    def take(self):
        """Whether one more request may be answered."""
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def note(self, **line):
        with self.lock, open(self.log, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")

    def handle_error(self, _request, _address):
        """A CLI that hangs up in the middle is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(_request, _address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "scripted", ""

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.reply({})

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.endswith("/models"):
            model = {"id": "scripted", "object": "model", "type": "model", "created": 0, "owned_by": "nobody",
                     "display_name": "scripted", "created_at": "2026-01-01T00:00:00Z"}
            return self.reply({"object": "list", "data": [model], "models": [], "has_more": False})
        self.server.note(get=path)
        return self.reply({})

    def do_POST(self):
        path = self.path.split("?")[0]
        body = self.body()
        if body is None:
            return None
        if path.endswith("/count_tokens"):
            return self.reply({"input_tokens": wire.TOKENS_IN})
        api = wire.dialect(path)
        if api is None:
            self.server.note(post=path)
            return self.reply({})
        if not self.server.take():
            return self.reply({"error": {"message": "the rehearsal is over"}}, 400)
        talk = api.read(body)
        move, line = plays.next_move(talk, json.dumps(body))
        self.server.note(api=api.name, model=talk.model, **line)
        if move.status != 200:
            return self.reply(api.refusal(move), move.status, {"x-should-retry": "false"})
        if talk.streams and not path.endswith(":generateContent"):
            return self.stream(api.answer(talk, move))
        return self.reply(api.whole(talk, move))

    def body(self):
        """The JSON that was sent; None if it could not be read, which has then been answered."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                if len(raw) + size > BODY_MAX:
                    return self.reply({"error": {"message": "too large"}}, 413)
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            size = int(self.headers.get("content-length") or 0)
            if size > BODY_MAX:
                return self.reply({"error": {"message": "too large"}}, 413)
            raw = self.rfile.read(size)
        try:
            if self.headers.get("content-encoding", "").lower() == "gzip":
                raw = gzip.decompress(raw)
            return json.loads(raw or b"{}")
        except (OSError, ValueError):
            return self.reply({"error": {"message": "neither JSON nor JSON in gzip"}}, 415)

    def reply(self, value, status=200, headers=()):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            data = ((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


def end_with(server, seconds):
    """Ends the server when its time is over, or when the holder of its stdin has gone."""
    timer = threading.Timer(seconds, server.shutdown)
    timer.daemon = True
    timer.start()

    def watch():
        while os.read(0, 4096):
            pass
        server.shutdown()

    threading.Thread(target=watch, daemon=True).start()


def main():
    options = argparse.ArgumentParser(description="A scripted model on loopback.")
    options.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options.add_argument("--log", required=True)
    options.add_argument("--seconds", type=float, default=1800)
    options.add_argument("--requests", type=int, default=2000)
    given = options.parse_args()
    server = Server(given.port, given.log, given.requests)
    print(server.server_address[1], flush=True)
    end_with(server, given.seconds)
    server.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    main()
