"""Daemons side by side on one machine, for integration tests. Standard library only.

Every process that a lab starts is stopped by its pid, and when a lab ends nothing of its state directories may be left
running. Ports come from the kernel; waiting is waiting for an event with a deadline."""
import array
import contextlib
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import net_lab_wire as wire

SOURCE = os.environ.get("EO_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("EO_BIN_DIR") or os.path.join(SOURCE, "build/release/bin")
EXAMPLES = os.path.join(SOURCE, "deploy/examples")
# Sanitized and loaded machines are slower, never faster: deadlines are for hangs.
SLOW = float(os.environ.get("EO_TEST_SLOWNESS", "1"))


class Skip(Exception):
    """This test cannot run here; the text says why."""


def processes_of(state_dir):
    """{pid: command line} of everyod and everyod-worker processes of a state directory."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/cmdline" % name, "rb") as f:
                    args = f.read().split(b"\0")
                with open("/proc/%s/stat" % name) as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if state != "Z" and b"everyod" in os.path.basename(args[0]) and os.fsencode(state_dir) in args:
                found[int(name)] = b" ".join(args).decode(errors="replace")
    return found


def wait_gone(pids, timeout):
    """Waits until the processes have ended (any process, by pidfd)."""
    deadline = time.monotonic() + timeout
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            readable, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
            if not readable:
                return False
        finally:
            os.close(fd)
    return True


class Daemon:
    def __init__(self, lab, name, args=(), state_dir=None, netns=None, listen="127.0.0.1:0", typed=None, preexec=None,
                 env=None):
        self.lab = lab
        self.name = name
        self.args = list(args)
        self.state_dir = state_dir or os.path.join(lab.dir, name)
        self.netns = netns
        self.listen = listen
        self.typed = typed
        self.preexec = preexec
        self.env = dict(env or {})
        self.log_path = os.path.join(lab.dir, name + ".log")
        self.process = None
        self.notify = None
        self.port = None

    def command(self):
        port_file = os.path.join(self.lab.dir, self.name + ".port")
        command = [os.path.join(BIN, "everyod"), "--listen", self.listen, "--port-file", port_file, "--state-dir",
                   self.state_dir] + self.args
        if self.netns:
            command = ["ip", "netns", "exec", self.netns] + command
        return command, port_file

    def start(self, timeout=20):
        """Starts and waits until it says READY=1."""
        assert self.process is None
        command, port_file = self.command()
        notify_path = os.path.join(self.lab.dir, self.name + ".notify")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(notify_path)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(notify_path)
        env = dict(os.environ, NOTIFY_SOCKET=notify_path, **self.env)
        env.pop("EVERYO_HOST", None)
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                        preexec_fn=self.preexec)
        log.close()
        self.wait_notify("READY=1", timeout)
        with open(port_file) as f:
            self.port = int(f.read())
        if self.listen.endswith(":0"):
            self.listen = "%s:%d" % (self.listen.rsplit(":", 1)[0], self.port)  # the same port after a restart
        self.endpoint = self.typed or self.listen
        return self

    def wait_notify(self, text, timeout=20):
        """Until the daemon says so to its service manager, which is us."""
        deadline = time.monotonic() + timeout * SLOW
        self.notify.settimeout(0.2)
        while True:
            try:
                if text.encode() in self.notify.recv(4096):
                    return
            except socket.timeout:
                if self.process.poll() is not None:
                    raise AssertionError("everyod %s ended with %s before it said %s:\n%s" %
                                         (self.name, self.process.returncode, text, self.log())) from None
                if time.monotonic() > deadline:
                    raise AssertionError("everyod %s did not say %s:\n%s" % (self.name, text, self.log())) from None

    @property
    def pid(self):
        """Of everyod itself, also behind `ip netns exec` (which execs)."""
        return self.process.pid

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def workers(self, job=None):
        return [pid for pid, text in processes_of(self.state_dir).items()
                if "everyod-worker" in text and (job is None or "--job " + job in text)]

    def connect(self, **params):
        return wire.Connection(self.endpoint, **params)

    def kill(self, signum=signal.SIGKILL):
        self.process.send_signal(signum)

    def wait(self, timeout=30):
        code = self.process.wait(timeout * SLOW)
        self.process = None
        self.notify.close()
        return code

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise AssertionError("everyod %s did not end within %d s of SIGTERM:\n%s" %
                                 (self.name, timeout, self.log())) from None

    def ping(self, timeout=10):
        with self.connect() as c:
            return c.call("ping", timeout=timeout)

    def expect_descriptors(self, most, timeout=10):
        """No more than so many stay open once the daemon has noticed what was closed."""
        until = time.monotonic() + timeout
        while self.fd_count() > most and time.monotonic() < until:
            time.sleep(0.005)
        expect(self.fd_count() <= most, "descriptors leak:", most, self.fd_count())

    def fd_count(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))


class Finished:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def lines(self):
        """The JSON objects of stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def result(self):
        last = self.lines()[-1]
        assert last["event"] == "result", last
        return last

    def __repr__(self):
        return "exit %d\n--- stdout\n%s\n--- stderr\n%s" % (self.code, self.out[-4000:], self.err[-4000:])


class Lab:
    def __init__(self, name):
        self.dir = tempfile.mkdtemp(prefix="everyo-%s-" % name)
        self.daemons = []
        self.commands = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        failures = []
        for c in self.commands:
            if c.poll() is None:
                c.kill()
                c.wait()
        for d in self.daemons:
            try:
                code = d.stop()
                if code not in (None, 0):
                    failures.append("everyod %s ended with %d:\n%s" % (d.name, code, d.log()[-3000:]))
            except AssertionError as e:
                failures.append(str(e))
        for d in self.daemons:
            left = processes_of(d.state_dir)
            if left and not wait_gone(left, 2 * SLOW):
                failures.append("still running: %s" % left)
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            text = d.log()
            if re.search(r"ERROR: \w+Sanitizer|runtime error:", text):
                failures.append("everyod %s: a sanitizer reports\n%s" % (d.name, text[-20000:]))
        if kind is not None and kind is not Skip:
            for d in self.daemons:
                sys.stderr.write("--- log of %s\n%s\n" % (d.name, d.log()[-6000:]))
        shutil.rmtree(self.dir, ignore_errors=True)
        if failures and kind is None:
            raise AssertionError("\n".join(failures))

    def daemon(self, name="d", start=True, **options):
        d = Daemon(self, name, **options)
        self.daemons.append(d)
        return d.start() if start else d

    def run(self, program, *args, timeout=120, env=None, cwd=None, stdin=None):
        """Runs everyo or everyo-submit to its end."""
        full = dict(os.environ, **(env or {}))
        if not (env and "EVERYO_HOST" in env):
            full.pop("EVERYO_HOST", None)
        p = subprocess.run([os.path.join(BIN, program)] + [str(a) for a in args], stdin=stdin or subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout * SLOW, env=full, cwd=cwd)
        return Finished(p.returncode, p.stdout.decode(), p.stderr.decode())

    def submit(self, *args, **options):
        return self.run("everyo-submit", *args, **options)

    def popen(self, program, *args, **options):
        env = dict(os.environ)
        env.pop("EVERYO_HOST", None)
        p = subprocess.Popen([os.path.join(BIN, program)] + [str(a) for a in args], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **options)
        self.commands.append(p)
        return p

    def finish(self, p, timeout=120):
        out, err = p.communicate(timeout=timeout * SLOW)
        return Finished(p.returncode, out.decode(), err.decode())

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        path = self.path(name)
        with open(path, "w") as f:
            f.write(text)
        return path


def example(name):
    with open(os.path.join(EXAMPLES, name), "rb") as f:
        return f.read()


def digits(**changes):
    """The digits job, small enough for tests, as YAML text; changes: epochs, train (more of its map), and top-level
    keys."""
    epochs = changes.pop("epochs", 5)
    train = changes.pop("train", "")
    batch = changes.pop("batch", 32)
    device = changes.pop("device", "cpu")
    text = """name: %s
model:
  - linear: {in: 64, out: 64}
  - relu
  - linear: {in: 64, out: 10}
loss: cross_entropy
metrics: [accuracy]
optimizer: {adam: {lr: 0.005}}
data:
  train: {csv: digits.csv, target: label}
  validation: {split: 0.2, stratified: true}
  scale: {divide: 16}
  batch: %s
train: {epochs: %s, seed: 0%s}
device: %s
""" % (changes.pop("name", "digits-test"), batch, epochs, ", " + train if train else "", device)
    for key, value in changes.items():
        text += "%s: %s\n" % (key, value)
    return text


# A job that runs until it is stopped.
ENDLESS = dict(epochs=1000000)


def safetensors(path):
    """{name: (dtype, shape, bytes)} of a file."""
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (e["dtype"], e["shape"], data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in header.items()}


def parameters_sha256(path):
    """As design section 9 says: names in byte order, each with dtype, shape and bytes."""
    names = {"F32": "float32", "F64": "float64"}
    h = hashlib.sha256()
    tensors = safetensors(path)
    for name in sorted(tensors, key=str.encode):
        dtype, shape, data = tensors[name]
        h.update(name.encode() + b"\0" + names[dtype].encode() + b"\0" + ",".join(map(str, shape)).encode() + b"\0")
        h.update(data)
    return h.hexdigest()


def relative_l2(path_a, path_b):
    """||a - b|| / ||b|| over all parameters of two model files."""
    a, b = safetensors(path_a), safetensors(path_b)
    assert sorted(a) == sorted(b), (sorted(a), sorted(b))
    difference = norm = 0.0
    for name in a:
        code = {"F32": "f", "F64": "d"}[a[name][0]]
        for x, y in zip(array.array(code, a[name][2]), array.array(code, b[name][2])):
            difference += (x - y) ** 2
            norm += y * y
    return (difference / norm) ** 0.5


def expect(condition, *context):
    if not condition:
        raise AssertionError(" ".join(str(c) for c in context) or "expectation failed")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


@contextlib.contextmanager
def tmpfs(lab, size):
    """A small disk of its own."""
    need_root()
    path = lab.path("small-disk")
    os.mkdir(path)
    r = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d,mode=0700" % size, "tmpfs", path],
                       stderr=subprocess.PIPE)
    if r.returncode != 0:
        raise Skip("no tmpfs can be mounted here: " + r.stderr.decode().strip())
    try:
        yield path
    finally:
        for d in lab.daemons:
            d.stop()
        subprocess.run(["umount", path], check=True)


def main(*tests):
    """Runs the tests in order (or those whose names are given as arguments). Exit 77 when all were skipped."""
    wanted = sys.argv[1:]
    failed, skipped, passed = [], [], 0
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        begin = time.monotonic()
        try:
            test()
            passed += 1
            word = "ok"
        except Skip as e:
            skipped.append("%s: %s" % (test.__name__, e))
            word = "skipped (%s)" % e
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
            failed.append(test.__name__)
            word = "FAILED"
        print("%-44s %6.2f s  %s" % (test.__name__, time.monotonic() - begin, word), flush=True)
    if failed:
        print("failed: " + ", ".join(failed))
        sys.exit(1)
    if skipped:
        print("skipped: " + "; ".join(skipped))
    sys.exit(77 if skipped and passed == 0 else 0)
