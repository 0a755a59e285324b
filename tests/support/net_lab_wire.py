"""The wire protocol in a few lines of Python, for tests: frames, a MessagePack subset, one connection.

Written from docs/protocol.md, not from the C code, so that it also checks the document."""
import hashlib
import os
import select
import socket
import struct
import time

CHUNK = 4 << 20
DEADLINE_S = 60


class WireError(Exception):
    """An error reply; .code and .map hold it."""

    def __init__(self, error):
        super().__init__("EO-%s %s: %s" % (error.get("code"), error.get("name", ""), error.get("message")))
        self.code = error.get("code")
        self.map = error


class Lost(Exception):
    """The connection has gone."""


def _pack_int(v, out):
    if 0 <= v < 128:
        out.append(v)
    elif -32 <= v < 0:
        out.append(v & 0xFF)
    elif v >= 0:
        out += b"\xcf" + struct.pack(">Q", v)
    else:
        out += b"\xd3" + struct.pack(">q", v)


def _pack_length(n, codes, out):
    fix, fix_max, c8, c16, c32 = codes
    if n <= fix_max:
        out.append(fix | n)
    elif c8 and n < 1 << 8:
        out += bytes([c8, n])
    elif n < 1 << 16:
        out += bytes([c16]) + struct.pack(">H", n)
    else:
        out += bytes([c32]) + struct.pack(">I", n)


def pack(v, out=None):
    out = bytearray() if out is None else out
    if v is None:
        out.append(0xC0)
    elif v is True or v is False:
        out.append(0xC3 if v else 0xC2)
    elif isinstance(v, int):
        _pack_int(v, out)
    elif isinstance(v, float):
        out += b"\xcb" + struct.pack(">d", v)
    elif isinstance(v, str):
        data = v.encode()
        _pack_length(len(data), (0xA0, 31, 0xD9, 0xDA, 0xDB), out)
        out += data
    elif isinstance(v, (bytes, bytearray)):
        _pack_length(len(v), (0, -1, 0xC4, 0xC5, 0xC6), out)
        out += v
    elif isinstance(v, (list, tuple)):
        _pack_length(len(v), (0x90, 15, 0, 0xDC, 0xDD), out)
        for item in v:
            pack(item, out)
    elif isinstance(v, dict):
        _pack_length(len(v), (0x80, 15, 0, 0xDE, 0xDF), out)
        for key, item in v.items():
            pack(key, out)
            pack(item, out)
    else:
        raise TypeError(type(v))
    return out


_FIXED = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h",
          0xD2: ">i", 0xD3: ">q"}
_SIZED = {0xC4: (1, "bin"), 0xC5: (2, "bin"), 0xC6: (4, "bin"), 0xD9: (1, "str"), 0xDA: (2, "str"), 0xDB: (4, "str"),
          0xDC: (2, "array"), 0xDD: (4, "array"), 0xDE: (2, "map"), 0xDF: (4, "map")}


def unpack(data, at=0):
    """Returns the value at `at` and the place behind it."""
    c = data[at]
    at += 1
    if c < 0x80:
        return c, at
    if c >= 0xE0:
        return c - 256, at
    if c in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[c], at
    if c in _FIXED:
        size = struct.calcsize(_FIXED[c])
        return struct.unpack_from(_FIXED[c], data, at)[0], at + size
    if c in _SIZED:
        width, kind = _SIZED[c]
        n = int.from_bytes(data[at:at + width], "big")
        at += width
    elif c < 0x90:
        kind, n = "map", c & 15
    elif c < 0xA0:
        kind, n = "array", c & 15
    else:
        kind, n = "str", c & 31
    if kind == "bin":
        return bytes(data[at:at + n]), at + n
    if kind == "str":
        return bytes(data[at:at + n]).decode(), at + n
    if kind == "array":
        out = []
        for _ in range(n):
            v, at = unpack(data, at)
            out.append(v)
        return out, at
    out = {}
    for _ in range(n):
        key, at = unpack(data, at)
        out[key], at = unpack(data, at)
    return out, at


def frame(envelope, payload=b""):
    body = bytes(pack(envelope))
    return b"EO\x01\x00" + struct.pack("<IQ", len(body), len(payload)) + body + payload


class Connection:
    """A client (or peer) connection. Every wait has a deadline."""

    def __init__(self, endpoint, role="client", hello=True, **params):
        host, port = endpoint.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout=10)
        self.sock.setblocking(False)
        self.buffer = bytearray()
        self.next_id = 0
        self.events = []
        self.answers = {}
        self.facts = {}
        if hello:
            self.facts = self.call("hello", dict({"versions": [1, 1], "role": role, "build": "test"}, **params))

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_bytes(self, data, deadline=None):
        deadline = deadline or time.monotonic() + DEADLINE_S
        view = memoryview(data)
        while view:
            _, writable, _ = select.select([], [self.sock], [], max(0, deadline - time.monotonic()))
            if not writable:
                raise TimeoutError("the daemon reads nothing")
            try:
                view = view[self.sock.send(view):]
            except (ConnectionError, BrokenPipeError) as e:
                raise Lost(str(e)) from e

    def send(self, method, params=None, payload=b""):
        self.next_id += 1
        self.send_bytes(frame([0, self.next_id, method, params or {}], payload))
        return self.next_id

    def _fill(self, n, deadline):
        while len(self.buffer) < n:
            readable, _, _ = select.select([self.sock], [], [], max(0, deadline - time.monotonic()))
            if not readable:
                raise TimeoutError("nothing came from the daemon in time")
            try:
                got = self.sock.recv(1 << 20)
            except ConnectionError as e:
                raise Lost(str(e)) from e
            if not got:
                raise Lost("the daemon closed the connection")
            self.buffer += got

    def receive(self, deadline):
        """One message: (envelope, payload)."""
        self._fill(16, deadline)
        if self.buffer[:4] != b"EO\x01\x00":
            raise ValueError("no frame: %r" % bytes(self.buffer[:16]))
        size, payload_size = struct.unpack_from("<IQ", self.buffer, 4)
        self._fill(16 + size + payload_size, deadline)
        envelope, end = unpack(self.buffer, 16)
        assert end == 16 + size, "bytes behind the envelope"
        payload = bytes(self.buffer[16 + size:16 + size + payload_size])
        del self.buffer[:16 + size + payload_size]
        return envelope, payload

    def pump(self, deadline):
        envelope, payload = self.receive(deadline)
        if envelope[0] == 1:
            self.answers[envelope[1]] = (envelope[2], envelope[3], payload)
        else:
            self.events.append((envelope[1], envelope[2], payload))

    def wait(self, request, timeout=DEADLINE_S, with_payload=False):
        deadline = time.monotonic() + timeout
        while request not in self.answers:
            self.pump(deadline)
        error, result, payload = self.answers.pop(request)
        if error is not None:
            raise WireError(error)
        return (result, payload) if with_payload else result

    def call(self, method, params=None, payload=b"", timeout=DEADLINE_S, with_payload=False):
        return self.wait(self.send(method, params, payload), timeout, with_payload)

    def next_event(self, timeout=DEADLINE_S):
        deadline = time.monotonic() + timeout
        while not self.events:
            self.pump(deadline)
        return self.events.pop(0)

    # ---- what tests do often ----

    def put_blob(self, data, chunk=CHUNK):
        name = hashlib.sha256(data).hexdigest()
        have = self.call("blob.have", {"sha256": [name]})
        at = have["received"][0]
        while not have["have"][0]:
            part = data[at:at + chunk]
            reply = self.call("blob.put", {"sha256": name, "size": len(data), "offset": at}, part)
            at += len(part)
            if reply["complete"]:
                break
        return name

    def submit(self, spec, files=None, key=None, **params):
        """spec: YAML text; files: {path as written: bytes}. Returns the job id."""
        refs = [{"path": path, "sha256": self.put_blob(data), "size": len(data)} for path, data in
                (files or {}).items()]
        request = dict({"key": key or os.urandom(8).hex(), "spec": spec, "files": refs}, **params)
        return self.call("job.submit", request)["job"]

    def status(self, job):
        return self.call("job.status", {"job": job})

    def watch_until(self, job, wanted, timeout=DEADLINE_S):
        """Follows the job's events until wanted(kind, params) is true; returns what it returned."""
        watch = self.send("job.watch", {"job": job, "logs": False})
        deadline = time.monotonic() + timeout
        while True:
            while self.events:
                method, params, _ = self.events.pop(0)
                if method == "job.event" and params["watch"] == watch:
                    hit = wanted(params["kind"], params)
                    if hit:
                        return hit
            if watch in self.answers:
                error, result, _ = self.answers.pop(watch)
                raise AssertionError("the job ended before that: %s %s" %
                                     (error or result["state"], (result or {}).get("result", {}).get("error")))
            self.pump(deadline)

    def wait_state(self, job, states, timeout=DEADLINE_S):
        states = (states,) if isinstance(states, str) else states
        return self.watch_until(job, lambda kind, p: kind == "state" and p["state"] in states and p["state"], timeout)

    def wait_step(self, job, step, timeout=DEADLINE_S):
        """Until the job has made that many steps."""
        return self.watch_until(job, lambda kind, p: kind == "progress" and p["progress"]["step"] >= step and
                                p["progress"], timeout)

    def wait_end(self, job, timeout=DEADLINE_S):
        """The job map once the job has ended."""
        return self.call("job.watch", {"job": job, "logs": False, "events": False}, timeout=timeout)["result"]
