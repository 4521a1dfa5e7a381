"""A client that keeps no rules: msgpack written by hand, over libzmq itself. For tests that send
what no honest client sends."""
import array
import ctypes
import os
import struct

from harness import ServiceTest, models, prompts

DEALER, LINGER, RCVTIMEO, ROUTING_ID, SNDMORE = 5, 17, 27, 5, 2

zmq = ctypes.CDLL("libzmq.so.5", use_errno=True)
zmq.zmq_ctx_new.restype = ctypes.c_void_p
zmq.zmq_socket.restype = ctypes.c_void_p
zmq.zmq_socket.argtypes = [ctypes.c_void_p, ctypes.c_int]
zmq.zmq_connect.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
zmq.zmq_setsockopt.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
zmq.zmq_send.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
zmq.zmq_recv.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
zmq.zmq_close.argtypes = [ctypes.c_void_p]
zmq.zmq_ctx_term.argtypes = [ctypes.c_void_p]


def pack(value):
    """msgpack; a bytes object is a binary, Packed bytes stand for themselves."""
    if isinstance(value, Packed):
        return value.data
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, dict):
        pairs = b"".join(pack(k) + pack(v) for k, v in value.items())
        count = len(value)
        return (b"\xde" + struct.pack(">H", count) if count < 1 << 16 else
                b"\xdf" + struct.pack(">I", count)) + pairs
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))


class Packed:
    def __init__(self, data):
        self.data = data


def unpack(data, at=0):
    """(value, next offset) of what the service sends."""
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind < 0x90 or kind in (0xde, 0xdf):
        size = {0xde: 2, 0xdf: 4}.get(kind, 0)
        count = int.from_bytes(data[at:at + size], "big") if size else kind & 15
        at += size
        found = {}
        for _ in range(count):
            key, at = unpack(data, at)
            found[key], at = unpack(data, at)
        return found, at
    if 0xa0 <= kind < 0xc0:
        length, size = kind & 31, 0
    elif kind in (0xd9, 0xda, 0xdb, 0xc4, 0xc5, 0xc6):
        size = {0xd9: 1, 0xda: 2, 0xdb: 4, 0xc4: 1, 0xc5: 2, 0xc6: 4}[kind]
        length = int.from_bytes(data[at:at + size], "big")
    elif kind in (0xc2, 0xc3):
        return kind == 0xc3, at
    elif kind in (0xcc, 0xcd, 0xce, 0xcf):
        size = 1 << (kind - 0xcc)
        return int.from_bytes(data[at:at + size], "big"), at + size
    elif kind == 0xcb:
        return struct.unpack(">d", data[at:at + 8])[0], at + 8
    else:
        raise ValueError(hex(kind))
    at += size
    text = data[at:at + length]
    return (text.decode() if kind in (0xd9, 0xda, 0xdb) or kind < 0xc0 else text), at + length


class RawClient:
    def __init__(self, service, socket="tern.sock", identity=None):
        self.context = zmq.zmq_ctx_new()
        self.socket = zmq.zmq_socket(self.context, DEALER)
        for option, value in ((LINGER, 200), (RCVTIMEO, 5000)):
            number = ctypes.c_int(value)
            zmq.zmq_setsockopt(self.socket, option, ctypes.byref(number), 4)
        if identity:
            zmq.zmq_setsockopt(self.socket, ROUTING_ID, identity, len(identity))
        path = os.path.join(service.env["XDG_RUNTIME_DIR"], "tern", socket)
        assert zmq.zmq_connect(self.socket, f"ipc://{path}".encode()) == 0
        self.buffer = ctypes.create_string_buffer(40 << 20)

    def send(self, data, more=False):
        assert zmq.zmq_send(self.socket, data, len(data), SNDMORE if more else 0) >= 0

    def ask(self, kind, request=1, **fields):
        self.send(pack({"v": 1, "k": kind, "request": request, **fields}))

    def receive(self, timeout_ms=5000):
        """The next reply, or None."""
        number = ctypes.c_int(timeout_ms)
        zmq.zmq_setsockopt(self.socket, RCVTIMEO, ctypes.byref(number), 4)
        size = zmq.zmq_recv(self.socket, self.buffer, len(self.buffer), 0)
        return None if size < 0 else unpack(ctypes.string_at(self.buffer, size))[0]

    def last(self, request=1):
        """The reply that ends the request; acknowledges what comes before."""
        while True:
            reply = self.receive(20000)
            assert reply is not None, "no reply within 20 s"
            if reply.get("request") != request:
                continue
            if reply["k"] in ("done", "error", "result"):
                return reply
            self.ask("ack", request, count=1)

    def close(self):
        zmq.zmq_close(self.socket)
        zmq.zmq_ctx_term(self.context)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class RawTest(ServiceTest):
    """What raw clients ask for: a model, the ids of a prompt (also packed), and those that follow it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, path, about = models()[0]
        cls.model = str(path)
        cls.tokens = prompts(about)[1]
        cls.want = cls.service.ids(path, cls.tokens, 8)
        cls.packed = array.array("I", cls.tokens).tobytes()
