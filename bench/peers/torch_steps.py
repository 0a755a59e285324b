#!/usr/bin/python3
"""Time of a training step in eager PyTorch on the CPU: zero_grad, forward, cross entropy, backward, optimizer step.

usage: torch_steps.py CASE [THREADS] [sgd|adam]     CASE: mlp_tiny (64-128-10, batch 32), mlp (784-512-512-10, batch 128)
One JSON line, in microseconds per step; 9 repeats of at least 0.2 s. bench/steps.py sets the environment that PyTorch is
fastest in (one OpenMP pool shared with OpenBLAS, bound threads, malloc that keeps its memory)."""
import json
import statistics
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F

CASES = {"mlp_tiny": ((64, 128, 10), 32), "mlp": ((784, 512, 512, 10), 128)}


def main():
    case = sys.argv[1]
    torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    widths, batch = CASES[case]
    torch.manual_seed(0)
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    if len(sys.argv) > 3 and sys.argv[3] == "sgd":
        opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    else:
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.rand(batch, widths[0]) * 2 - 1
    y = torch.arange(batch) % 10

    def step():
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    for _ in range(20):
        step()
    times = []
    for _ in range(9):
        start, n = time.perf_counter(), 0
        while time.perf_counter() - start < 0.2:
            for _ in range(16):
                step()
            n += 16
        times.append((time.perf_counter() - start) / n * 1e6)
    print(json.dumps({"case": case, "us_per_step": round(statistics.median(times), 2), "min": round(min(times), 2),
                      "max": round(max(times), 2), "torch": torch.__version__, "threads": torch.get_num_threads()}))


main()
