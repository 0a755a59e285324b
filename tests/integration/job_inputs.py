"""Bad input of every kind: each a clear error with its exit code, the daemon unharmed, nothing leaked."""
import os
import socket
import subprocess
import threading

import lab_path  # noqa: F401
import net_lab
import net_lab_wire as wire
from net_lab import BIN, ENDLESS, Lab, Skip, digits, expect, need_root, tmpfs

CSV = {"digits.csv": net_lab.example("digits.csv")}
HEADER = b"a,b,label\n"


def small(target="label", more=""):
    return """name: small
model: [linear: {in: 2, out: 2}]
loss: cross_entropy
optimizer: {sgd: {lr: 0.1}}
data: {train: {csv: small.csv, target: %s}, batch: 4}
train: {epochs: 1}
device: cpu
%s""" % (target, more)


def run(lab, d, spec, csv):
    with open(lab.path("small.csv"), "wb") as f:
        f.write(csv)
    return lab.submit("run", lab.write("small.yaml", spec), "-H", d.endpoint, "--json")


def bad_data():
    """Found when the job runs; the file's name as the job wrote it, the line, and exit code 65."""
    with Lab("data") as lab:
        d = lab.daemon()
        good = HEADER + b"1,2,0\n3,4,1\n" * 4
        expect(run(lab, d, small(), good).code == 0, "good data")
        rows = [
            (HEADER + b"1,2,0\n3,1\n", small(), ":3:"),  # ragged
            (HEADER + b"1,2,0\n3,4,1,5\n", small(), ":3:"),
            (HEADER + b"1,nan,0\n3,4,1\n", small(), ":2:"),
            (HEADER + b"1,inf,0\n3,4,1\n", small(), ":2:"),
            (HEADER + b"1,1e999,0\n3,4,1\n", small(), ":2:"),
            (HEADER + b"1,x,0\n3,4,1\n", small(), ":2:"),
            (good, small("species"), "species"),  # no such column
            (good, small("9"), "9"),
            (HEADER + b"1,2,0\n3,4,7\n", small(), "7"),  # a class the model has not
            (HEADER + b"1,2,0.5\n3,4,1\n", small(), "0.5"),
            (HEADER, small(), ""),  # no rows
            (b"", small(), ""),
            (b"a,label\n1,0\n2,1\n", small(), ""),  # fewer columns than the model has inputs
            (b"\xff\xfe\x00\x01" * 50, small(), ""),
        ]
        for csv, spec, part in rows:
            r = run(lab, d, spec, csv)
            error = r.result()["error"]
            expect(r.code == 65, "wanted 65", csv[:60], r)
            expect(r.result()["state"] == "failed" and part in str(error), "wanted", part, "in", error)
            expect("small.csv" in str(error) or "linear" in str(error), "the file's name", error)
            expect("blobs" not in str(error), "not the name of its content", error)
        expect(d.workers() == [], "no worker is left")


def diverging_model():
    with Lab("nan") as lab:
        d = lab.daemon()
        text = digits(epochs=20).replace("adam: {lr: 0.005}", "sgd: {lr: 1e30}")
        with d.connect() as c:
            end = c.wait_end(c.submit(text, CSV))
        expect(end["state"] == "failed" and end["error"]["code"] == 7004, end)
        expect("step" in end["error"]["message"] and end["error"]["hint"], end)


def files_that_are_not_there():
    with Lab("absent") as lab:
        d = lab.daemon(args=["--data-dir", lab.path("data")], start=False)
        os.mkdir(lab.path("data"))
        os.symlink("/etc/passwd", lab.path("data/link.csv"))
        with open(lab.path("data/digits.csv"), "wb") as f:
            f.write(CSV["digits.csv"])
        d.start()
        with d.connect() as c:
            local = digits(epochs=1).replace("csv: digits.csv", "csv: " + lab.path("data/digits.csv"))
            end = c.wait_end(c.submit(local))  # of this host, inside --data-dir
            expect(end["state"] == "succeeded", end)
            for path in ("digits.csv", "/etc/passwd", lab.path("data/link.csv"), lab.path("data/../d.log"),
                         lab.path("data/none.csv")):
                refused(c, 7002, digits().replace("csv: digits.csv", "csv: " + path))
            refused(c, 7002, digits(), files=[{"path": "digits.csv", "sha256": "0" * 64, "size": 1}])
            e = refused(c, 7001, local, hosts=[d.endpoint, "127.0.0.1:1"])
            expect("several hosts" in e["message"], e)
            refused(c, 1005, digits(), files=[{"path": "digits.csv", "sha256": "zz", "size": 1}])
            refused(c, 1012, digits(), hosts=["bad host"])
            refused(c, 1005, digits(), hosts=["127.0.0.1:%d" % i for i in range(1, 10)])
            refused(c, 7001, "model: [")
            name = c.put_blob(CSV["digits.csv"])
            refused(c, 7005, digits(), resume="abcdef", files=[{"path": "digits.csv", "sha256": name, "size": 1}])
            expect(c.call("job.list")["total"] == 1, "nothing else was accepted")


def refused(c, code, spec, **params):
    request = dict({"key": os.urandom(8).hex(), "spec": spec, "files": []}, **params)
    try:
        c.call("job.submit", request)
    except wire.WireError as e:
        expect(e.code == code, "wanted", code, "got", e, request)
        return e.map
    raise AssertionError("accepted: %s" % request)


STRANGERS = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-OpenSSH\r\n",
             b"\x00" * 100, b"\xff" * 100, b"EO", b"EO\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
             b"EO\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + b"\xc1" * 16,
             b"EO\x02\x00\x10\x00\x00\x00" + b"\x00" * 8, b"EO\x01\x80\x10\x00\x00\x00" + b"\x00" * 8, b""]


def strangers_on_the_port():
    """What is no frame ends its own connection and nothing else."""
    with Lab("strangers") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(**ENDLESS), CSV)
            c.wait_step(job, 5)
            before = d.fd_count()
            for data in STRANGERS:
                host, port = d.endpoint.split(":")
                s = socket.create_connection((host, int(port)), timeout=10)
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
                s.close()
            # Data sockets that know no job, or not its secret.
            for params in ({"job": "0" * 32, "epoch": 1, "from_rank": 1, "to_rank": 0, "token": b"x" * 32},
                           {"job": job, "epoch": 1, "from_rank": 1, "to_rank": 0, "token": b"x" * 32},
                           {"job": "../../x", "epoch": 1, "from_rank": 1, "to_rank": 0, "token": b""},
                           {"job": "\u001b[31m", "epoch": -1, "from_rank": 99, "to_rank": 0, "token": None}):
                try:
                    d.connect(role="data", **params)
                    raise AssertionError("a stranger's data socket was taken: %s" % params)
                except (wire.WireError, wire.Lost):
                    pass
            c.call("ping")
            expect(c.status(job)["state"] == "running", "the job goes on")
            d.expect_descriptors(before)
            c.call("job.cancel", {"job": job})


def peers_that_misbehave():
    """peer.* from somebody who is no coordinator of ours."""
    with Lab("peer") as lab:
        d = lab.daemon()
        ok = {"job": "1" * 32, "epoch": 5, "rank": 1, "world_size": 2, "hosts": ["a:1", d.endpoint], "name": "x",
              "spec": digits(), "files": [], "token": b"t" * 32, "lease_ms": 300}
        with d.connect(role="peer", node="f" * 32) as p:
            for change in ({"job": "1" * 31}, {"job": "../" + "1" * 29}, {"rank": 0}, {"rank": 2}, {"world_size": 1},
                           {"world_size": 9}, {"hosts": ["a:1"]}, {"hosts": [1, 2]}, {"token": b"t"}, {"spec": 7},
                           {"files": [{"path": "x", "sha256": "", "size": 1}]}, {"lease_ms": 1 << 40},
                           {"epoch": -1}):
                code(p, 1005, "peer.prepare", dict(ok, **change))
            code(p, 7002, "peer.prepare", dict(ok, files=[{"path": "x", "sha256": "0" * 64, "size": 1}]))
            for method in ("peer.connect", "peer.heartbeat", "peer.abort"):
                code(p, 5003, method, {"job": "1" * 32, "epoch": 5, "error": {}, "progress": 0})
        with d.connect() as c:
            code(c, 1007, "peer.prepare", ok)  # a client is no peer
            c.put_blob(CSV["digits.csv"])
            # A reservation ends with its lease, with its connection, and with an abort.
            for end in ("lease", "close", "abort"):
                p = d.connect(role="peer", node="f" * 32)
                reply = p.call("peer.prepare", ok)
                expect(reply["pid"] in d.workers("1" * 32), reply)
                with d.connect(role="peer", node="e" * 32) as other:
                    code(other, 1011, "peer.prepare", dict(ok, job="2" * 32))  # the slot is taken
                    code(other, 5003, "peer.abort", {"job": "1" * 32, "epoch": 5, "error": {}})
                code(p, 5003, "peer.connect", {"job": "1" * 32, "epoch": 4})
                if end == "abort":
                    p.call("peer.abort", {"job": "1" * 32, "epoch": 5, "error": {"code": 1011, "message": "no"}})
                elif end == "close":
                    p.close()
                expect(net_lab.wait_gone([reply["pid"]], 10), "the reserved worker stays after", end)
                p.close()
            # Prepared again at once: what the last rank left is removed meanwhile, and not under the new one.
            for _ in range(25):
                with d.connect(role="peer", node="f" * 32) as p:
                    pid = p.call("peer.prepare", ok)["pid"]
                    p.call("peer.abort", {"job": "1" * 32, "epoch": 5, "error": {"code": 1011, "message": "no"}})
                    expect(net_lab.wait_gone([pid], 10), "the aborted worker stays")
            job = c.submit(digits(epochs=1), CSV)
            expect(c.wait_end(job)["state"] == "succeeded", "the slot is free again")
            expect(c.call("job.list")["total"] == 1, "nothing is remembered of them")
        d.stop()
        expect(os.listdir(os.path.join(d.state_dir, "members")) == [], "their folders are gone")


def code(c, wanted, method, params):
    try:
        c.call(method, params)
    except wire.WireError as e:
        expect(e.code == wanted, "wanted", wanted, "got", e, method, params)
        return e.map
    raise AssertionError("%s succeeded: %s" % (method, params))


def half_open_host():
    """A port that accepts and says nothing: the client gives up in time, and so does a coordinator."""
    with Lab("mute") as lab:
        d = lab.daemon()
        mute = socket.socket()
        mute.bind(("127.0.0.1", 0))
        mute.listen(8)
        endpoint = "127.0.0.1:%d" % mute.getsockname()[1]
        r = lab.submit("ls", "-H", endpoint, "--timeout", "500ms")
        expect(r.code in (69, 124) and endpoint in r.err, r)
        with d.connect() as c:
            job = c.submit(digits(epochs=1), CSV, hosts=[d.endpoint, endpoint])
            end = c.wait_end(job)
            expect(end["state"] == "failed" and end["error"]["host"] == endpoint, end)
            job = c.submit(digits(epochs=1), CSV, hosts=[d.endpoint, "127.0.0.1:1"])
            end = c.wait_end(job)
            expect(end["state"] == "failed" and end["error"]["code"] == 1009, end)
            expect(end["error"]["host"] == "127.0.0.1:1" and end["error"]["rank"] == 1, end)
            job = c.submit(digits(epochs=1), CSV, hosts=[d.endpoint, d.endpoint.replace("127.0.0.1", "localhost")])
            end = c.wait_end(job)
            expect(end["error"]["code"] == 5003 and "same daemon" in end["error"]["message"], end)
        mute.close()


def unwritable_state_directory():
    with Lab("state") as lab:
        everyod = [os.path.join(BIN, "everyod"), "--listen", "127.0.0.1:0", "--state-dir"]

        def start(state, code, part, **options):
            r = subprocess.run(everyod + [state], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=20, **options)
            expect(r.returncode == code and part in r.stderr.decode(), r)

        open(lab.path("file"), "w").close()
        start(lab.path("file"), 73, "state directory")
        start("/proc/everyo", 73, "state directory")
        # A journal that is none, or of a newer version.
        os.mkdir(lab.path("odd"))
        with open(lab.path("odd/journal.sqlite"), "wb") as f:
            f.write(b"no database " * 1000)
        start(lab.path("odd"), 73, "damaged")
        d = lab.daemon("d")
        start(d.state_dir, 73, "in use")
        if os.geteuid() == 0:
            os.mkdir(lab.path("locked"), 0o700)
            os.chmod(lab.dir, 0o755)
            start(lab.path("locked"), 73, "state directory", user=65534, group=65534)
        d.ping()


def full_disk():
    need_root()
    with Lab("full") as lab, tmpfs(lab, 3 << 20) as disk:
        d = lab.daemon("d", state_dir=disk)
        with d.connect() as c:
            done = c.wait_end(c.submit(digits(epochs=1), CSV))
            expect(done["state"] == "succeeded", done)
            # An upload that does not fit.
            big = os.urandom(4 << 20)
            e = code_of_upload(c, big)
            expect(e["code"] == 6004 and e["hint"], e)
            fill = os.path.join(disk, "fill")
            fill_up(fill)
            e = code(c, 6004, "job.submit", {"key": "full", "spec": digits(epochs=1), "files": [
                {"path": "digits.csv", "sha256": c.put_blob(CSV["digits.csv"]), "size": 1}]})
            c.call("ping")
            os.unlink(fill)
            # Running when the disk fills: the checkpoint cannot be written.
            job = c.submit(digits(epochs=100000, train="checkpoint: {every_epochs: 1, keep: 1}"), CSV)
            c.wait_step(job, 50)
            fill_up(fill)
            end = c.wait_end(job)
            expect(end["state"] == "failed" and end["error"]["code"] == 6004, end)
            c.call("ping")
            os.unlink(fill)
            # The journal takes the state that it could not take before.
            last = c.wait_end(c.submit(digits(epochs=1), CSV))
            expect(last["state"] == "succeeded", last)
            removed = [f for f in os.listdir(os.path.join(disk, "blobs/part"))]
            expect(len(removed) <= 1, removed)
        r = lab.submit("wait", job, "-H", d.endpoint)
        expect(r.code == 74, r)
        d.stop()
        d.start()
        with d.connect() as c:
            expect(c.status(job)["state"] == "failed" and c.status(job)["error"]["code"] == 6004, c.status(job))


def fill_up(path):
    with open(path, "wb", buffering=0) as f:
        for size in (65536, 512, 1):
            try:
                while True:
                    f.write(b"x" * size)
            except OSError:
                pass


def code_of_upload(c, data):
    try:
        c.put_blob(data)
    except wire.WireError as e:
        return e.map
    raise AssertionError("more was taken than there is room")


def many_clients_that_vanish():
    """Connections that are cut in the middle of uploads and watches leave nothing behind."""
    with Lab("vanish") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(**ENDLESS), CSV)
            c.wait_step(job, 5)
            before = d.fd_count()

            def vanish(i):
                w = d.connect()
                w.send("job.watch", {"job": job})
                w.send("blob.put", {"sha256": "%064x" % i, "size": 1 << 30, "offset": 0}, b"x" * (1 << 20))
                w.sock.sendall(wire.frame([0, 99, "blob.put", {"sha256": "%064x" % i, "size": 1 << 30, "offset": 1 << 20}],
                                          b"y" * 1000)[:-500])
                w.close()

            threads = [threading.Thread(target=vanish, args=(i,)) for i in range(20)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            end = c.call("job.cancel", {"job": job})
            expect(c.wait_end(job)["state"] == "cancelled", end)
            # Each answer of ours comes after the loop has seen those ends.
            for _ in range(5):
                c.call("ping")
            d.expect_descriptors(before)
            expect(c.call("ping")["load"]["connections"] == 1, c.call("ping"))


net_lab.main(bad_data, diverging_model, files_that_are_not_there, strangers_on_the_port, peers_that_misbehave,
             half_open_host, unwritable_state_directory, full_disk, many_clients_that_vanish)
