#!/usr/bin/env python3
"""Time from exec of everyod until its port file is there, and its resident memory when idle.

usage: exec_ready.py BIN_DIR [--runs 20]        One JSON line: milliseconds and KiB as min, median, max."""
import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time


def spread(values):
    return {"min": round(min(values), 2), "median": round(statistics.median(values), 2), "max": round(max(values), 2)}


def wait_for(path, deadline):
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        select.select([], [], [], 0.0002)


def one_run(bin_dir):
    with tempfile.TemporaryDirectory() as folder:
        port_file = os.path.join(folder, "port")
        start = time.monotonic()
        daemon = subprocess.Popen([os.path.join(bin_dir, "everyod"), "--listen", "127.0.0.1:0", "--port-file", port_file,
                                   "--state-dir", os.path.join(folder, "state"), "--log-level", "error"])
        try:
            wait_for(port_file, start + 10)
            ready = (time.monotonic() - start) * 1e3
            with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
                resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        finally:
            daemon.terminate()
            daemon.wait(10)
    return ready, resident


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=20)
    args = parser.parse_args()
    ready, resident = zip(*(one_run(args.bin_dir) for _ in range(args.runs)))
    print(json.dumps({"runs": args.runs, "exec_to_ready_ms": spread(ready), "resident_kib": spread(resident)}))
    return 0


sys.exit(main())
