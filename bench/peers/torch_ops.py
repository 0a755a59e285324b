#!/usr/bin/python3
"""The calls of bench_ops in eager PyTorch on the CPU: case lines (bench_ops --list) on stdin, results on stdout.

usage: torch_ops.py [--threads N] [--repeats N] [FILTER] < CASES
One JSON line a case: us_min, us_median, us_max. Results go to buffers that exist already where PyTorch takes one
(out=); rows that PyTorch has no counterpart for are left out. bench/ops.py sets the environment."""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "int32": torch.int32,
          "int64": torch.int64}


def tensor(text):
    words = text.replace("x", " ").split()
    shape = [int(w) for w in words[1:]]
    dtype, count = DTYPES[words[0]], 1
    for n in shape:
        count *= n
    i = torch.arange(count)
    flat = i % 2 if dtype in (torch.int32, torch.int64) else 0.5 + (i * 7919 % 1021) / 1021.0
    return flat.to(dtype).reshape(shape)


def ints(attrs, name, fallback):
    return [int(v) for v in attrs[name].split(",")] if name in attrs else fallback


def unary(f):
    def make(x, attrs):
        out = torch.empty_like(x[0])
        return lambda: f(x[0], out=out)
    return make


def binary(f, result=None):
    def make(x, attrs):
        out = torch.empty(torch.broadcast_shapes(x[0].shape, x[1].shape), dtype=result or x[0].dtype)
        return lambda: f(x[0], x[1], out=out)
    return make


def matmul(x, attrs):
    a, b = x
    a = a.transpose(-1, -2) if attrs.get("transpose_a") == "1" else a
    b = b.transpose(-1, -2) if attrs.get("transpose_b") == "1" else b
    out = torch.matmul(a, b)
    return lambda: torch.matmul(a, b, out=out)


def linear(x, attrs):
    out = torch.addmm(x[2], x[0], x[1])
    return lambda: torch.addmm(x[2], x[0], x[1], out=out)


def cast(x, attrs):
    out = torch.empty(x[0].shape, dtype=DTYPES[attrs["dtype"]])
    return lambda: out.copy_(x[0])


def reduction(f):
    def make(x, attrs):
        axes = ints(attrs, "axes", None)
        return (lambda: f(x[0])) if axes is None else (lambda: f(x[0], axes))
    return make


def along(f, fallback=-1):
    def make(x, attrs):
        axis = ints(attrs, "axis", [fallback])[0]
        return lambda: f(x[0], axis)
    return make


def transpose(x, attrs):
    perm = ints(attrs, "perm", list(range(x[0].dim()))[::-1])
    view = x[0].permute(perm)
    out = torch.empty(view.shape)
    return lambda: out.copy_(view)


def concatenate(x, attrs):
    axis = ints(attrs, "axis", [0])[0]
    out = torch.cat(x, axis)
    return lambda: torch.cat(x, axis, out=out)


def take(x, attrs):
    view = x[0]
    for d, (start, stop) in enumerate(zip(ints(attrs, "starts", []), ints(attrs, "stops", []))):
        view = view.narrow(d, start, stop - start)
    out = torch.empty(view.shape)
    return lambda: out.copy_(view)


def gather(x, attrs):
    out = torch.index_select(x[0], 0, x[1])
    return lambda: torch.index_select(x[0], 0, x[1], out=out)


def channels_first(x, n):
    """A view with the channels in PyTorch's place, in memory channels last."""
    return x.permute(0, n + 1, *range(1, n + 1))


def geometry(x, attrs, n):
    pads = ints(attrs, "pads", [0] * 2 * n)
    return dict(stride=ints(attrs, "strides", [1] * n), padding=pads[:n], dilation=ints(attrs, "dilations", [1] * n),
                groups=ints(attrs, "groups", [1])[0])


def conv_operands(x, attrs):
    """Input, weight and result layout as PyTorch wants them; weights (*K, C, O) become (O, C, *K) channels last."""
    n = x[0].dim() - 2
    if attrs.get("layout") == "nchw":
        return x[0], x[1], n
    weight = x[1].permute(n + 1, n, *range(n)).contiguous()
    if n == 2:
        weight = weight.contiguous(memory_format=torch.channels_last)
        return channels_first(x[0], n), weight, n
    return channels_first(x[0], n).contiguous(), weight, n


CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def conv(x, attrs):
    a, w, n = conv_operands(x, attrs)
    bias = x[2] if len(x) > 2 else None
    g = geometry(x, attrs, n)
    return lambda: CONV[n](a, w, bias, **g)


def conv_transpose(x, attrs):
    a, w, n = conv_operands(x, attrs)
    g = geometry(x, attrs, n)
    return lambda: TRANSPOSED[n](a, w, None, **g)


def conv_weight(x, attrs):
    n = x[0].dim() - 2
    a, grad = channels_first(x[0], n), channels_first(x[1], n)
    g = geometry(x, attrs, n)
    w = torch.zeros(grad.shape[1], a.shape[1] // g["groups"], *ints(attrs, "kernel", []))
    if n == 2:
        w = w.contiguous(memory_format=torch.channels_last)
    return lambda: torch.ops.aten.convolution_backward(grad, a, w, None, g["stride"], g["padding"], g["dilation"],
                                                       False, [0] * n, g["groups"], [False, True, False])


ROWS = {
    "add": binary(torch.add), "multiply": binary(torch.mul), "divide": binary(torch.div), "power": binary(torch.pow),
    "less": binary(torch.lt, torch.bool), "matmul": matmul, "linear": linear, "cast": cast, "exp": unary(torch.exp),
    "log": unary(torch.log), "tanh": unary(torch.tanh), "sigmoid": unary(torch.sigmoid), "erf": unary(torch.erf),
    "relu": lambda x, attrs: (lambda out=torch.empty_like(x[0]): torch.clamp_min(x[0], 0, out=out)),
    "sum": reduction(torch.sum), "mean": reduction(torch.mean), "max": reduction(torch.amax),
    "variance": reduction(lambda x, axes: torch.var(x, axes, unbiased=False)), "arg_max": along(torch.argmax),
    "softmax": along(torch.softmax), "log_softmax": along(torch.log_softmax),
    "cross_entropy": lambda x, attrs: (lambda: F.cross_entropy(x[0], x[1], reduction="none")),
    "transpose": transpose, "concatenate": concatenate, "slice": take, "gather": gather, "conv": conv,
    "conv_transpose": conv_transpose, "conv_weight": conv_weight,
    "dropout": lambda x, attrs: (lambda: F.dropout(x[0], 0.5)),
}


def measure(call, repeats):
    def many(n):
        start = time.perf_counter()
        for _ in range(n):
            call()
        return (time.perf_counter() - start) / n * 1e6
    many(1)
    calls = max(1, int(1000 / max(many(3), 0.1)))
    times = sorted(many(calls) for _ in range(repeats))
    return {"us_min": times[0], "us_median": statistics.median(times), "us_max": times[-1]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("filter", nargs="?", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    for line in sys.stdin:
        case = json.loads(line)
        if args.filter not in case["case"] or case["op"] not in ROWS:
            continue
        inputs = [tensor(t) for t in case["inputs"].split(";")]
        attrs = dict(word.split("=") for word in case["attrs"].split())
        result = measure(ROWS[case["op"]](inputs, attrs), args.repeats)
        print(json.dumps({"case": case["case"], **result}), flush=True)


main()
