#!/usr/bin/env python3
"""Kernels of EveryO beside PyTorch, plain OpenBLAS, plain oneDNN and the limit of memory, as ratios.

usage: ops.py BIN_DIR [FILTER] [--runs 5] [--threads 1,2] [--repeats 15] [--statistic median] [--csv FILE]

Processes of EveryO and of each peer take turns, --runs times. One line a case and number of threads: EveryO's median time
and, per peer, EveryO's time divided by the peer's as median (min to max) over the rounds: below 1 EveryO is faster. "limit"
is the time that as many threads take to read the operands and write the results, in EveryO's own process. --statistic min
compares the fastest repeats, for a machine that is busy. A peer that is not installed is said to be skipped."""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys

PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.abspath(__file__))


def peer_environment(threads):
    """PyTorch at its best here: see steps.py. The libraries run under the same settings."""
    env = dict(os.environ)
    env.update(OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="true", MALLOC_MMAP_THRESHOLD_="4294967296",
               MALLOC_TRIM_THRESHOLD_="8589934592", MALLOC_TOP_PAD_="268435456",
               LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu/openblas-openmp")
    env.pop("OPENBLAS_CORETYPE", None)
    env.pop("OPENBLAS_L2_SIZE", None)
    return env


def run(command, env=None, stdin=""):
    """Results by case; None when the program says that it is skipped."""
    done = subprocess.run(command, env=env, input=stdin, stdout=subprocess.PIPE, text=True, timeout=1800)
    if done.returncode == 77:
        return None
    done.check_returncode()
    return {r["case"]: r for r in map(json.loads, done.stdout.splitlines())}


def installed_peers(bin_dir):
    peers = []
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        peers.append("torch")
    else:
        print("skipped: PyTorch is not installed (apt-get install python3-torch libopenblas0-openmp)")
    for library in ("openblas", "onednn"):
        probe = subprocess.run([os.path.join(bin_dir, "bench_library"), library, "no such case"], stderr=subprocess.PIPE)
        if probe.returncode == 0:
            peers.append(library)
        else:
            print(probe.stderr.decode().strip())
    return peers


def run_round(bin_dir, peers, threads, options, cases):
    common = ["--threads", str(threads), "--repeats", str(options.repeats)] + ([options.filter] if options.filter else [])
    results = {"everyo": run([os.path.join(bin_dir, "bench_ops")] + common)}
    env = peer_environment(threads)
    for peer in peers:
        if peer == "torch":
            results[peer] = run([PYTHON, os.path.join(HERE, "peers", "torch_ops.py")] + common, env, cases)
        else:
            results[peer] = run([os.path.join(bin_dir, "bench_library"), peer] + common, env)
    return results


def ratios_of(rounds, case, peer, key):
    out = []
    for r in rounds:
        mine = r["everyo"][case]
        if peer == "limit":
            other = mine.get("us_limit_min" if key == "us_min" else "us_limit")
        else:
            other = r.get(peer, {}).get(case, {}).get(key)
        if other:
            out.append(mine[key] / other)
    return out


def text_of(ratios):
    if not ratios:
        return ""
    return "%.2f (%.2f-%.2f)" % (statistics.median(ratios), min(ratios), max(ratios))


def report(rounds, peers, threads, options, writer):
    key = "us_" + options.statistic
    columns = ["limit"] + peers
    print("%-38s %-3s %-30s %10s  " % ("case", "thr", "kernel", "us") + "".join("%-20s" % c for c in columns))
    for case, first in rounds[0]["everyo"].items():
        us = statistics.median(r["everyo"][case][key] for r in rounds)
        ratios = {c: ratios_of(rounds, case, c, key) for c in columns}
        print("%-38s %-3d %-30s %10.2f  " % (case, threads, first["kernel"][4:34], us) +
              "".join("%-20s" % text_of(ratios[c]) for c in columns), flush=True)
        for c in columns:
            if writer and ratios[c]:
                writer.writerow([case, threads, first["kernel"], "%.3f" % us, c, "%.4f" % min(ratios[c]),
                                 "%.4f" % statistics.median(ratios[c]), "%.4f" % max(ratios[c])])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("filter", nargs="?", default="")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--statistic", choices=["median", "min"], default="median")
    parser.add_argument("--csv")
    options = parser.parse_args()
    peers = installed_peers(options.bin_dir)
    cases = subprocess.run([os.path.join(options.bin_dir, "bench_ops"), "--list"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    out = open(options.csv, "w", newline="", encoding="utf-8") if options.csv else None
    writer = csv.writer(out) if out else None
    if writer:
        writer.writerow(["case", "threads", "kernel", "us", "against", "ratio_min", "ratio_median", "ratio_max"])
    for threads in map(int, options.threads.split(",")):
        rounds = [run_round(options.bin_dir, peers, threads, options, cases) for _ in range(options.runs)]
        report(rounds, peers, threads, options, writer)
    if out:
        out.close()
    return 0


sys.exit(main())
