"""everyo run: ONNX models from the command line to a worker and back; what is wrong is said, the daemon is unharmed."""
import gzip
import json
import os
import signal
import struct
import threading

import lab_path  # noqa: F401
import net_lab
import net_lab_wire as wire
import onnx_bytes as onnx
from net_lab import Lab, Skip, expect, processes_of

X, W = onnx.value("x", onnx.FLOAT, ["batch", 2]), onnx.floats("w", [2, 3], [1, 2, 3, 4, 5, 6])


def affine(inputs=(X,), nodes=(), outputs=(), initializers=()):
    """y (batch,3) = x (batch,2) w + b; b (3) may be given and is 0.5 else."""
    return onnx.model(onnx.graph(
        [onnx.node("MatMul", ["x", "w"], ["xw"]), onnx.node("Add", ["xw", "b"], ["y"])] + list(nodes),
        list(inputs) + [onnx.value("b", onnx.FLOAT, [3])], [onnx.value("y", onnx.FLOAT, ["batch", 3])] + list(outputs),
        [W, onnx.floats("b", [3], [0.5] * 3)] + list(initializers)))


ROWS = onnx.npy_floats([2, 2], [1, 2, 3, 4])
WANTED = [1 * 1 + 2 * 4 + .5, 1 * 2 + 2 * 5 + .5, 1 * 3 + 2 * 6 + .5, 3 + 16 + .5, 6 + 20 + .5, 9 + 24 + .5]


def slow_model(n=400):
    """Squares a matrix n times: on the reference backend it runs longer than any test waits."""
    nodes = [onnx.node("MatMul", ["v%d" % i, "v%d" % i], ["v%d" % (i + 1)]) for i in range(n)]
    return onnx.model(onnx.graph(nodes, [onnx.value("v0", onnx.FLOAT, [512, 512])],
                                 [onnx.value("v%d" % n, onnx.FLOAT, [512, 512])]))


SLOW_INPUT = onnx.npy_floats([512, 512], [0.0] * (512 * 512))


# A sanitizer's allocator ends the process where malloc would say no.
SAYS_NO = {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "allocator_may_return_null=1"]))}


class ModelLab(Lab):
    def file(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def model(self, *args, **options):
        return self.run("everyo", "run", *args, **options)


def send_run(c, model, inputs=None, **params):
    """Uploads and asks; returns the request, to be waited for."""
    return c.send("model.run", dict({"model": c.put_blob(model), "inputs": [
        {"name": k, "sha256": c.put_blob(v), "format": "npy", "file": k + ".npy"} for k, v in (inputs or {}).items()]},
        **params))


def code(wanted, call, *args, **params):
    try:
        call(*args, **params)
    except wire.WireError as e:
        expect(e.code == wanted, "wanted", wanted, "got", e)
        return e.map
    raise AssertionError("it succeeded: %s %s" % (args, params))


def nothing_left(d):
    """No worker but the device's, no results."""
    deadline = net_lab.time.monotonic() + 10 * net_lab.SLOW
    while any("--job" in text for text in processes_of(d.state_dir).values()):
        expect(net_lab.time.monotonic() < deadline, processes_of(d.state_dir))
        d.ping()
    expect(os.listdir(os.path.join(d.state_dir, "models")) == [], "results are left")


def from_a_file_to_a_file():
    """Without a daemon: a private one."""
    with ModelLab("local") as lab:
        m, x = lab.file("m.onnx", affine()), lab.file("x.npy", ROWS)
        r = lab.model(m, "--input", x, "--output-dir", lab.path("out/deep"), "--local")
        expect(r.code == 0 and os.listdir(lab.path("out/deep")) == ["0.npy"], r)
        descr, shape, raw = onnx.read_npy(lab.path("out/deep/0.npy"))
        expect((descr, shape) == ("<f4", [2, 3]) and list(struct.unpack("<6f", raw)) == WANTED, descr, shape, raw)
        expect(r.out.split()[:5] == ["y", "float32", "[2,", "3]", "min"] and r.out.endswith("out/deep/0.npy\n"), r)
        expect("cpu" in r.err and "threads" in r.err, r)
        # Small outputs are printed when they go to no file; a name may be written; gzip is unpacked.
        z = lab.file("z.npy.gz", gzip.compress(ROWS))
        r = lab.model(m, "-i", "x=" + z, "--local", "-q")
        expect(r.code == 0 and r.out.endswith("[9.5, 12.5, 15.5, 19.5, 26.5, 33.5]\n"), r)


def the_example():
    """What deploy/examples/ATTRIBUTION.md says of it."""
    with ModelLab("example") as lab:
        d = lab.daemon()
        m, x = (os.path.join(net_lab.EXAMPLES, name) for name in ("digits.onnx", "digits-ten.npy"))
        for backend in ("cpu", "reference"):
            r = lab.model(m, "--input", "pixels=" + x, "-b", backend, "--output-dir", lab.path(backend), "-H", d.endpoint)
            expect(r.code == 0, r)
            expect(onnx.read_npy(lab.path(backend + "/1.npy")) == ("<i8", [10], struct.pack("<10q", *range(10))), r)
        a, b = (struct.unpack("<100f", onnx.read_npy(lab.path(k + "/0.npy"))[2]) for k in ("cpu", "reference"))
        expect(all(abs(p - q) < 1e-6 for p, q in zip(a, b)), a, b)


def on_a_daemon():
    with ModelLab("far") as lab:
        d = lab.daemon()
        m, x = lab.file("m.onnx", affine()), lab.file("x.npy", ROWS)
        b = lab.file("b.pb", onnx.floats("whatever", [3], [10, 20, 30]))
        for backend in ("cpu", "reference"):
            r = lab.model(m, "-i", "b=" + b, "-i", "x=" + x, "--backend", backend, "--json", "-H", d.endpoint)
            expect(r.code == 0, r)
            doc = json.loads(r.out)
            y = doc["outputs"][0]
            expect(doc["schema"] == 1 and doc["device"] == backend and doc["fallback"] is None, doc)
            expect(y["values"] == [v - .5 + (10, 20, 30)[i % 3] for i, v in enumerate(WANTED)], y)
            expect((y["name"], y["dtype"], y["shape"], y["file"]) == ("y", "float32", [2, 3], None), y)
            expect((y["min"], y["max"]) == (19, 63) and abs(y["mean"] - sum(y["values"]) / 6) < 1e-9, y)
        r = lab.model(m, "-i", x, "--backend", "gpu", "-H", d.endpoint)
        expect(r.code == 69 and "cpu" in r.err, r)
        r = lab.model(m, "-i", x, "-H", "127.0.0.1:1")
        expect(r.code == 69, r)
        r = lab.model(m, "-i", x, "-H", d.endpoint + ",127.0.0.1:1")
        expect(r.code == 64, r)
        r = lab.model(m, "-i", x, "-H", d.endpoint, "--output-dir", x)
        expect(r.code == 73, r)
        nothing_left(d)


def describing():
    with ModelLab("describe") as lab:
        d = lab.daemon()
        m = lab.file("m.onnx", affine())
        r = lab.model(m, "--describe", "-H", d.endpoint)
        expect(r.code == 0, r)
        for part in ("ai.onnx 13", "2 nodes, 9 parameters", "x", "float32 [batch, 2]", "float32 [3] optional",
                     "Add 1, MatMul 1"):
            expect(part in r.out, part, r)
        doc = json.loads(lab.model(m, "--describe", "--json", "-H", d.endpoint).out)
        expect(doc["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 2], "required": True},
                                 {"name": "b", "dtype": "float32", "shape": [3], "required": False}], doc)
        expect(doc["outputs"] == [{"name": "y", "dtype": "float32", "shape": ["batch", 3]}], doc)
        expect((doc["opsets"], doc["ir_version"], doc["operators"]) == ({"ai.onnx": 13}, 8, {"Add": 1, "MatMul": 1}), doc)
        r = lab.model(m, "--describe", "-i", "x=x.npy", "-H", d.endpoint)
        expect(r.code == 64 and "--input" in r.err, r)


def inputs_that_do_not_fit():
    with ModelLab("inputs") as lab:
        d = lab.daemon()
        other = onnx.value("other", onnx.INT64, [None])
        m = lab.file("m.onnx", affine([X, other], [onnx.node("Identity", ["other"], ["o"])],
                                      [onnx.value("o", onnx.INT64, [None])]))
        x, o = lab.file("x.npy", ROWS), lab.file("o.npy", onnx.npy("<i8", [1], struct.pack("<q", 7)))
        wide = lab.file("wide.npy", onnx.npy_floats([1, 3], [1, 2, 3]))
        flat = lab.file("flat.npy", onnx.npy_floats([2], [1, 2]))
        double = lab.file("double.npy", onnx.npy("<f8", [1, 2], struct.pack("<2d", 1, 2)))
        bad = lab.file("bad.npy", ROWS[:-1])
        huge = lab.file("huge.npy", onnx.npy("<f4", [1 << 40, 2], b""))
        bad_pb = lab.file("bad.pb", b"\xff" * 50)
        text = lab.file("x.txt", b"1,2")
        rows = [
            ([], 65, ["2 inputs", "x float32 [batch, 2]", "other int64 [?]", "b float32 [3] (optional)"]),
            (["-i", "x=" + x], 65, ["1 input", "other int64"]),
            (["-i", "x=" + x, "-i", "othr=" + o], 65, ["no input", "othr", "Did you mean other?"]),
            (["-i", x], 65, ["3 inputs", "NAME=FILE"]),
            (["-i", "x=" + x, "-i", "x=" + x, "-i", "other=" + o], 65, ["x is given twice"]),
            (["-i", "x=" + double, "-i", "other=" + o], 65, ["double.npy", "float64", "float32", "cast"]),
            (["-i", "x=" + wide, "-i", "other=" + o], 65, ["dimension 1 of input x is 2", "wide.npy has 3"]),
            (["-i", "x=" + flat, "-i", "other=" + o], 65, ["flat.npy", "float32 [2]"]),
            (["-i", "x=" + bad, "-i", "other=" + o], 65, ["bad.npy", "cut short"]),
            (["-i", "x=" + huge, "-i", "other=" + o], 65, ["huge.npy"]),
            (["-i", "x=" + bad_pb, "-i", "other=" + o], 65, ["bad.pb"]),
            (["-i", "x=" + lab.path("none.npy")], 66, ["none.npy"]),
            (["-i", "x=" + text], 64, ["x.txt", ".npy"]),
            (["-i", "=" + x], 64, ["NAME=FILE"]),
            (["-i", "x="], 64, ["NAME=FILE"]),
        ]
        for args, wanted, parts in rows:
            r = lab.model(m, "-H", d.endpoint, *args)
            expect(r.code == wanted, "wanted", wanted, args, r)
            for part in parts:
                expect(part in r.err, "wanted", part, "in", r)
            expect("blobs" not in r.err, "the name of the content", r)
        r = lab.model(m, "-H", d.endpoint, "-i", "x=" + x, "-i", "other=" + o, "--output-dir", lab.path("out"))
        expect(r.code == 0 and sorted(os.listdir(lab.path("out"))) == ["0.npy", "1.npy"], r)
        expect(onnx.read_npy(lab.path("out/1.npy")) == ("<i8", [1], struct.pack("<q", 7)), r)
        nothing_left(d)


def models_that_are_none():
    with ModelLab("broken") as lab:
        d = lab.daemon(env=SAYS_NO)
        good, x = affine(), lab.file("x.npy", ROWS)
        huge = onnx.model(onnx.graph([onnx.node("Identity", ["w"], ["y"])], [], [onnx.value("y", onnx.FLOAT, [None])],
                                     [onnx.tensor("w", onnx.FLOAT, [1 << 40, 1 << 20], b"1234")]))
        large = onnx.model(onnx.graph([onnx.node("Expand", ["w", "s"], ["y"])], [], [onnx.value("y", onnx.FLOAT, None)],
                                      [onnx.floats("w", [], [1]),
                                       onnx.tensor("s", onnx.INT64, [2], struct.pack("<2q", 1 << 24, 1 << 24))]))
        cycle = onnx.model(onnx.graph([onnx.node("Add", ["x", "z"], ["y"]), onnx.node("Neg", ["y"], ["z"])], [X],
                                      [onnx.value("y", onnx.FLOAT, None)]))
        unknown = onnx.model(onnx.graph([onnx.node("Frobnicate", ["x"], ["y"])], [X],
                                        [onnx.value("y", onnx.FLOAT, None)]))
        models = [b"", b"\0" * 100, b"\xff" * 100, os.urandom(5000), huge, cycle, unknown, b"GIF89a" + good]
        models += [good[:n] for n in range(1, len(good), 29)]
        with d.connect() as c:
            for i, m in enumerate(models):
                e = failure(c, m)
                expect(e["code"] in (7003, 4002, 2006), i, e)
                expect("blobs" not in str(e), e)
            e = failure(c, unknown)
            expect("Frobnicate" in str(e), e)
            e = failure(c, large, {})
            expect(e["code"] in (2006, 4003, 6006, 3002), e)
        r = lab.model(lab.file("cut.onnx", good[:100]), "-i", x, "-H", d.endpoint)
        expect(r.code == 65 and "cut.onnx" in r.err, r)
        r = lab.model(lab.path("none.onnx"), "-H", d.endpoint)
        expect(r.code == 66 and "none.onnx" in r.err, r)
        r = lab.model(lab.file("m.onnx", good), "-i", x, "-H", d.endpoint)
        expect(r.code == 0, r)
        nothing_left(d)


def failure(c, model, inputs=None):
    try:
        result = c.wait(send_run(c, model, {"x": ROWS} if inputs is None else inputs))
    except wire.WireError as e:
        return e.map
    raise AssertionError("it ran: %s" % result)


def every_dtype():
    """What comes out has NumPy's descr; bfloat16 comes as float32."""
    rows = [(onnx.FLOAT, "float32", "<f4", struct.pack("<3f", 0, 1, 2.5)), (onnx.DOUBLE, "float64", "<f8", struct.pack("<3d", 0, 1, 2.5)),
            (onnx.FLOAT16, "float16", "<f2", struct.pack("<3e", 0, 1, 2.5)), (onnx.BFLOAT16, "bfloat16", "<f4", struct.pack("<3f", 0, 1, 2.5)),
            (onnx.INT8, "int8", "|i1", b"\0\1\2"), (onnx.INT16, "int16", "<i2", struct.pack("<3h", 0, 1, 2)),
            (onnx.INT32, "int32", "<i4", struct.pack("<3i", 0, 1, 2)), (onnx.INT64, "int64", "<i8", struct.pack("<3q", 0, 1, 2)),
            (onnx.UINT8, "uint8", "|u1", b"\0\1\2"), (onnx.UINT16, "uint16", "<u2", struct.pack("<3H", 0, 1, 2)),
            (onnx.UINT32, "uint32", "<u4", struct.pack("<3I", 0, 1, 2)), (onnx.UINT64, "uint64", "<u8", struct.pack("<3Q", 0, 1, 2)),
            (onnx.BOOL, "bool", "|b1", b"\0\1\1")]
    with ModelLab("dtypes") as lab:
        d = lab.daemon()
        nodes = [onnx.node("Cast", ["x"], ["y%d" % i], to=row[0]) for i, row in enumerate(rows)]
        outputs = [onnx.value("y%d" % i, row[0], [3]) for i, row in enumerate(rows)]
        m = lab.file("m.onnx", onnx.model(onnx.graph(nodes, [onnx.value("x", onnx.FLOAT, [3])], outputs)))
        x = lab.file("x.npy", onnx.npy_floats([3], [0, 1, 2.5]))
        r = lab.model(m, "-i", x, "-H", d.endpoint, "--output-dir", lab.path("out"), "--json")
        expect(r.code == 0, r)
        doc = json.loads(r.out)
        for i, (_, name, descr, raw) in enumerate(rows):
            expect(doc["outputs"][i]["dtype"] == name, doc["outputs"][i])
            expect(onnx.read_npy(lab.path("out/%d.npy" % i)) == (descr, [3], raw), name, onnx.read_npy(lab.path("out/%d.npy" % i)))
        # Rank 0, empty, not finite.
        scalar = lab.file("s.onnx", onnx.model(onnx.graph(
            [onnx.node("ReduceSum", ["x"], ["s"], keepdims=0), onnx.node("Log", ["x"], ["l"])],
            [onnx.value("x", onnx.FLOAT, [None])], [onnx.value("s", onnx.FLOAT, []), onnx.value("l", onnx.FLOAT, [None])])))
        r = lab.model(scalar, "-i", x, "-H", d.endpoint, "--json")
        expect(r.code == 0, r)
        s, log = json.loads(r.out)["outputs"]
        expect(s["shape"] == [] and s["values"] == [3.5], s)
        expect(log["values"][:2] == [None, 0] and log["min"] is None and log["nonfinite"] is True, log)
        empty = lab.file("e.npy", onnx.npy_floats([0], []))
        r = lab.model(scalar, "-i", empty, "-H", d.endpoint, "--output-dir", lab.path("empty"))
        expect(r.code == 0 and "empty" in r.out.splitlines()[1], r)
        expect(onnx.read_npy(lab.path("empty/1.npy")) == ("<f4", [0], b""), r)


def large_results():
    """In chunks; and no more than a session may have."""
    with ModelLab("large") as lab:
        config = lab.write("conf", "session-memory = 40MiB\n")
        d = lab.daemon(args=["--config", config])
        m = lab.file("m.onnx", onnx.model(onnx.graph([onnx.node("Expand", ["x", "s"], ["y"])], [
            onnx.value("x", onnx.FLOAT, [1]), onnx.value("s", onnx.INT64, [1])], [onnx.value("y", onnx.FLOAT, None)])))
        x = lab.file("x.npy", onnx.npy_floats([1], [2.5]))
        n = 2500001
        s = lab.file("s.npy", onnx.npy("<i8", [1], struct.pack("<q", n)))
        r = lab.model(m, "-i", "x=" + x, "-i", "s=" + s, "-H", d.endpoint, "--output-dir", lab.path("out"))
        expect(r.code == 0, r)
        descr, shape, raw = onnx.read_npy(lab.path("out/0.npy"))
        expect(shape == [n] and raw == struct.pack("<f", 2.5) * n, shape, len(raw))
        s = lab.file("s.npy", onnx.npy("<i8", [1], struct.pack("<q", 11 << 20)))
        r = lab.model(m, "-i", "x=" + x, "-i", "s=" + s, "-H", d.endpoint)
        expect(r.code == 75 and "44" in r.err, r)
        # Those that are there count.
        with d.connect() as c:
            inputs = {"x": onnx.npy_floats([1], [2.5]), "s": onnx.npy("<i8", [1], struct.pack("<q", 6 << 20))}
            model = open(m, "rb").read()
            run = c.wait(send_run(c, model, inputs))["run"]
            code(3002, c.wait, send_run(c, model, inputs))
            c.call("model.free", {"run": run})
            code(1005, c.call, "model.free", {"run": run})
            c.wait(send_run(c, model, inputs))
        nothing_left(d)


def results_belong_to_a_session():
    with ModelLab("results") as lab:
        d = lab.daemon()
        with d.connect() as c, d.connect() as stranger:
            reply = c.wait(send_run(c, affine(), {"x": ROWS}))
            run, y = reply["run"], reply["outputs"][0]
            result, data = c.call("model.read", {"run": run, "offset": y["offset"], "size": y["bytes"]}, with_payload=True)
            expect(len(data) == y["bytes"] == result["total"] and data.startswith(b"\x93NUMPY"), result, data)
            result, data = c.call("model.read", {"run": run, "offset": y["bytes"], "size": 10}, with_payload=True)
            expect(data == b"", data)
            code(1005, c.call, "model.read", {"run": run, "offset": 0, "size": wire.CHUNK + 1})
            code(1005, c.call, "model.read", {"run": "../" + run[:20], "offset": 0, "size": 1})
            code(1005, stranger.call, "model.read", {"run": run, "offset": 0, "size": 1})
            code(1005, stranger.call, "model.free", {"run": run})
            for params in ({}, {"model": "zz", "inputs": []}, {"model": "0" * 64}, {"model": "0" * 64, "inputs": [7]},
                           {"model": "0" * 64, "inputs": [{"name": "x", "sha256": "0" * 64, "format": "csv"}]},
                           {"model": "0" * 64, "inputs": [], "fallback": "maybe"}):
                code(1005, c.call, "model.run", params)
            code(4001, c.call, "model.run", {"model": "0" * 64, "inputs": [], "device": "gpu"})
            code(7002, c.call, "model.run", {"model": "0" * 64, "inputs": []})
            code(7002, c.call, "model.describe", {"model": "0" * 64})
            for _ in range(15):
                c.wait(send_run(c, affine(), {"x": ROWS}))
            e = code(3002, c.wait, send_run(c, affine(), {"x": ROWS}))
            expect("16 runs" in e["message"], e)
            stranger.wait(send_run(stranger, affine(), {"x": ROWS}))
        nothing_left(d)


def a_client_that_vanishes():
    with ModelLab("vanish") as lab:
        d = lab.daemon()
        before = None
        for wait_for_worker in (True, False):
            c = d.connect()
            send_run(c, slow_model(), {"v0": SLOW_INPUT}, device="reference")
            waiting = d.connect()
            send_run(waiting, slow_model(), {"v0": SLOW_INPUT}, device="reference")
            while wait_for_worker and not running(d):
                d.ping()
            expect(len(running(d)) <= 1, "one at a time", running(d))
            waiting.close()
            c.close()
            nothing_left(d)
            before = before or d.fd_count()
        with d.connect() as c:  # the queue goes on
            c.wait(send_run(c, affine(), {"x": ROWS}, device="reference"))
        nothing_left(d)
        d.ping()
        d.expect_descriptors(before)


def running(d):
    return [pid for pid, text in processes_of(d.state_dir).items() if "--job" in text]


def a_worker_that_dies():
    with ModelLab("crash") as lab:
        d = lab.daemon()
        with d.connect() as c:
            request = send_run(c, slow_model(), {"v0": SLOW_INPUT}, device="reference")
            while not running(d):
                d.ping()
            os.kill(running(d)[0], signal.SIGKILL)
            e = code(4005, c.wait, request)
            expect("signal 9" in e["message"] and e["hint"], e)
            c.wait(send_run(c, affine(), {"x": ROWS}))
        nothing_left(d)


def a_run_that_takes_too_long():
    with ModelLab("limit") as lab:
        d = lab.daemon(args=["--config", lab.write("conf", "model-time-limit = %d\n" % (1 * net_lab.SLOW))])
        m, v = lab.file("m.onnx", slow_model()), lab.file("v.npy", SLOW_INPUT)
        r = lab.model(m, "-i", v, "-b", "reference", "-H", d.endpoint)
        expect(r.code == 1 and "7009" in r.err, r)
        r = lab.model(m, "-i", v, "-b", "reference", "-H", d.endpoint, "--timeout", "100ms")
        expect(r.code == 124, r)
        nothing_left(d)


def turns():
    """Several sessions at once: each is answered, with its own result; one worker at a time."""
    with ModelLab("turns") as lab:
        d = lab.daemon()
        failures = []

        def client(k):
            try:
                with d.connect() as c:
                    requests = [send_run(c, affine(), {"x": onnx.npy_floats([1, 2], [k, i])}, device="cpu")
                                for i in range(4)]
                    for i, request in enumerate(requests):
                        y = c.wait(request)["outputs"][0]["values"]
                        expect(y == [k + 4 * i + .5, 2 * k + 5 * i + .5, 3 * k + 6 * i + .5], y, k, i)
            except Exception as e:  # pylint: disable=broad-except
                failures.append(e)

        threads = [threading.Thread(target=client, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        most = 0
        while any(t.is_alive() for t in threads):
            most = max(most, len(running(d)))
        for t in threads:
            t.join()
        expect(not failures, failures)
        expect(most <= 2, most)  # one that ends while the next one starts
        nothing_left(d)


def more_memory_than_there_is():
    """An error, before the host is full; the model's process alone pays."""
    with ModelLab("memory") as lab:
        d = lab.daemon(args=["--memory-limit", "256MiB"], env=SAYS_NO)
        m = onnx.model(onnx.graph([onnx.node("Expand", ["x", "s"], ["y"]), onnx.node("ReduceSum", ["y"], ["z"], keepdims=0)],
                                  [onnx.value("x", onnx.FLOAT, [1]), onnx.value("s", onnx.INT64, [1])],
                                  [onnx.value("z", onnx.FLOAT, [])]))
        with d.connect() as c:
            for n in (1 << 28, 1 << 40, (1 << 63) - 1):
                e = failure(c, m, {"x": onnx.npy_floats([1], [1]), "s": onnx.npy("<i8", [1], struct.pack("<q", n))})
                expect(e["code"] in (2006, 4003, 6006), e)
        nothing_left(d)


def the_daemon_ends():
    """SIGTERM does not wait for a model; what a killed daemon left goes with the next start."""
    with ModelLab("end") as lab:
        d = lab.daemon()
        m, v = lab.file("m.onnx", slow_model()), lab.file("v.npy", SLOW_INPUT)
        p = lab.popen("everyo", "run", m, "-i", v, "-b", "reference", "-H", d.endpoint)
        while not running(d):
            d.ping()
        expect(d.stop(10) == 0, "ends in good order")
        r = lab.finish(p)
        expect(r.code in (69, 75), r)
        with open(os.path.join(d.state_dir, "models", "left"), "w") as f:
            f.write("x")
        d.start()
        nothing_left(d)


def without_onnx():
    """What a build without protobuf-c says."""
    with ModelLab("without") as lab:
        r = lab.model(lab.file("m.onnx", affine()), "-i", lab.file("x.npy", ROWS), "--local")
        expect(r.code == 65 and "EO-4002" in r.err and "libprotobuf-c-dev" in r.err, r)


def has_onnx():
    with Lab("build") as lab:
        r = lab.run("everyo", "info", "--local", "--json")
        return json.loads(r.out)["libraries"]["protobuf_c"] is not None


if has_onnx():
    net_lab.main(from_a_file_to_a_file, the_example, on_a_daemon, describing, inputs_that_do_not_fit, models_that_are_none, every_dtype,
                 large_results, results_belong_to_a_session, a_client_that_vanishes, a_worker_that_dies,
                 a_run_that_takes_too_long, turns, more_memory_than_there_is, the_daemon_ends)
else:
    def running_models():
        raise Skip("this build has no ONNX (protobuf-c is missing)")
    net_lab.main(without_onnx, running_models)
