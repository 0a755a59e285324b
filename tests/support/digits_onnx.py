"""Makes deploy/examples/digits.onnx and digits-ten.npy: trains a small network on digits.csv with the built programs and
writes it as ONNX. Usage: EO_BIN_DIR=build/release/bin python3 tests/support/digits_onnx.py [DIR]"""
import os
import struct
import subprocess
import sys
import tempfile

import net_lab
import onnx_bytes as onnx

JOB = """name: digits-onnx
model: [linear: {in: 64, out: 32}, relu, linear: {in: 32, out: 10}]
loss: cross_entropy
metrics: [accuracy]
optimizer: {adam: {lr: 0.005}}
data: {train: {csv: %s, target: label}, scale: {divide: 16}, batch: 32}
train: {epochs: 40, seed: 0}
device: cpu
"""


def train(directory):
    """{name: (dtype, shape, bytes)} of the trained model."""
    with open(os.path.join(directory, "job.yaml"), "w") as f:
        f.write(JOB % os.path.join(net_lab.EXAMPLES, "digits.csv"))
    subprocess.run([os.path.join(net_lab.BIN, "everyo-submit"), "run", "job.yaml", "--local", "-o", "out"], check=True,
                   cwd=directory)
    return net_lab.safetensors(os.path.join(directory, "out/model.safetensors"))


def model(weights):
    """pixels (batch,64), 0 to 16 -> probabilities (batch,10), digit (batch). Weights are (in,out), as ours are."""
    tensors = [onnx.tensor(name, onnx.FLOAT, shape, raw) for name, (_, shape, raw) in sorted(weights.items())]
    (w1, b1), (w2, b2) = [sorted((n for n in weights if n.startswith(layer)), key=lambda n: -len(weights[n][1]))
                          for layer in sorted({n.rsplit(".", 1)[0] for n in weights})]
    nodes = [onnx.node("Div", ["pixels", "white"], ["x"]),
             onnx.node("MatMul", ["x", w1], ["xw"]), onnx.node("Add", ["xw", b1], ["h"]),
             onnx.node("Relu", ["h"], ["r"]),
             onnx.node("MatMul", ["r", w2], ["rw"]), onnx.node("Add", ["rw", b2], ["logits"]),
             onnx.node("Softmax", ["logits"], ["probabilities"], axis=-1),
             onnx.node("ArgMax", ["logits"], ["digit"], axis=-1, keepdims=0)]
    return onnx.model(onnx.graph(nodes, [onnx.value("pixels", onnx.FLOAT, ["batch", 64])],
                                 [onnx.value("probabilities", onnx.FLOAT, ["batch", 10]),
                                  onnx.value("digit", onnx.INT64, ["batch"])],
                                 tensors + [onnx.floats("white", [], [16.0])]))


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else net_lab.EXAMPLES
    with tempfile.TemporaryDirectory() as scratch:
        weights = train(scratch)
    with open(os.path.join(directory, "digits.onnx"), "wb") as f:
        f.write(model(weights))
    rows = net_lab.example("digits.csv").decode().splitlines()[1:11]  # one of each digit, in order
    pixels = [float(v) for row in rows for v in row.split(",")[:64]]
    with open(os.path.join(directory, "digits-ten.npy"), "wb") as f:
        f.write(onnx.npy_floats([10, 64], pixels))


main()
