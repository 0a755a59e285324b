#!/usr/bin/env python3
"""Training steps of EveryO and of eager PyTorch, in turn, as ratios (EveryO / PyTorch; below 1 is faster).

usage: steps.py BIN_DIR [--runs 5] [--threads 2] [--cases mlp_tiny,mlp]

Prints one line a case: median microseconds of both, and the ratio's min, median and max over the pairs of processes.
Without PyTorch (Debian: python3-torch libopenblas0-openmp) it says so and exits 77. Measures; judges nothing."""
import argparse
import json
import os
import statistics
import subprocess
import sys

PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.abspath(__file__))


def peer_environment(threads):
    """PyTorch at its best here: OpenBLAS's OpenMP build so that there is one thread pool, bound threads, and a malloc that
    does not give memory back after each step; OpenBLAS chooses its own kernels."""
    env = dict(os.environ)
    env.update(OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="true", MALLOC_MMAP_THRESHOLD_="4294967296",
               MALLOC_TRIM_THRESHOLD_="8589934592", MALLOC_TOP_PAD_="268435456",
               LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu/openblas-openmp")
    env.pop("OPENBLAS_CORETYPE", None)
    env.pop("OPENBLAS_L2_SIZE", None)
    return env


def run(command, env=None):
    out = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, timeout=300).stdout
    return json.loads(out)["us_per_step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cases", default="mlp_tiny,mlp")
    args = parser.parse_args()
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: PyTorch is not installed (apt-get install python3-torch libopenblas0-openmp)")
        return 77
    threads = str(args.threads)
    for case in args.cases.split(","):
        ours, theirs = [], []
        for _ in range(args.runs):
            ours.append(run([os.path.join(args.bin_dir, "bench_steps"), case, threads]))
            theirs.append(run([PYTHON, os.path.join(HERE, "peers", "torch_steps.py"), case, threads],
                              peer_environment(args.threads)))
        ratios = [a / b for a, b in zip(ours, theirs)]
        print(json.dumps({"case": case, "threads": args.threads, "pairs": args.runs,
                          "everyo_us": round(statistics.median(ours), 2), "torch_us": round(statistics.median(theirs), 2),
                          "ratio": {"min": round(min(ratios), 3), "median": round(statistics.median(ratios), 3),
                                    "max": round(max(ratios), 3)}}))
    return 0


sys.exit(main())
