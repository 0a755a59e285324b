"""ONNX files in a few lines of Python, for tests: protocol buffers by hand, after onnx.proto of ONNX 1.12.

model(graph(...)) gives the bytes of a ModelProto; tensor(...) those of a TensorProto."""
import struct

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64 = range(1, 14)
BFLOAT16 = 16


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def number(field, v):
    return varint(field << 3) + varint(v)


def data(field, v):
    v = v.encode() if isinstance(v, str) else bytes(v)
    return varint(field << 3 | 2) + varint(len(v)) + v


def tensor(name, dtype, shape, raw):
    return b"".join(number(1, d) for d in shape) + number(2, dtype) + data(8, name) + data(9, raw)


def floats(name, shape, values):
    return tensor(name, FLOAT, shape, struct.pack("<%df" % len(values), *values))


def value(name, dtype, shape):
    """ValueInfoProto; a dimension is a size, the name of an open one, or None."""
    dims = b"".join(data(1, number(1, d) if isinstance(d, int) else data(2, d) if d else b"") for d in shape or [])
    kind = number(1, dtype) + (data(2, dims) if shape is not None else b"")
    return data(1, name) + data(2, data(1, kind))


def attribute(name, v):
    if isinstance(v, float):
        return data(1, name) + varint(2 << 3 | 5) + struct.pack("<f", v) + number(20, 1)
    if isinstance(v, int):
        return data(1, name) + number(3, v) + number(20, 2)
    if isinstance(v, str):
        return data(1, name) + data(4, v) + number(20, 3)
    return data(1, name) + b"".join(number(8, i) for i in v) + number(20, 7)


def node(op, inputs, outputs, domain="", **attributes):
    return (b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs) + data(4, op) +
            b"".join(data(5, attribute(k, v)) for k, v in attributes.items()) + (data(7, domain) if domain else b""))


def graph(nodes, inputs, outputs, initializers=()):
    return (b"".join(data(1, n) for n in nodes) + data(2, "g") + b"".join(data(5, t) for t in initializers) +
            b"".join(data(11, v) for v in inputs) + b"".join(data(12, v) for v in outputs))


def model(graph_bytes, opset=13, ir_version=8):
    return number(1, ir_version) + data(2, "everyo-tests") + data(7, graph_bytes) + data(8, number(2, opset))


def npy(descr, shape, raw):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (
        descr, "".join("%d, " % d for d in shape))
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + raw


def npy_floats(shape, values):
    return npy("<f4", shape, struct.pack("<%df" % len(values), *values))


def read_npy(path):
    """(descr, shape, bytes)"""
    with open(path, "rb") as f:
        raw = f.read()
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:8]
    size = 10 + struct.unpack("<H", raw[8:10])[0]
    assert size % 64 == 0
    header = eval(raw[10:size].decode(), {"__builtins__": {}})  # pylint: disable=eval-used
    assert header["fortran_order"] is False
    return header["descr"], list(header["shape"]), raw[size:]
