"""Jobs in every state: ls, status, logs, wait, cancel, fetch, rm; the queue with one slot; watchers with offsets."""
import hashlib
import json
import os
import time

import lab_path  # noqa: F401
import net_lab
import net_lab_wire as wire
from net_lab import ENDLESS, Lab, digits, expect

CSV = {"digits.csv": net_lab.example("digits.csv")}
JOB_KEYS = {"schema", "job_id", "name", "state", "reason", "submitted_ms", "started_ms", "ended_ms", "device", "hosts",
            "world_size", "restarts", "progress", "metrics", "parameters_sha256", "steps", "epochs", "seconds",
            "ranks", "log_bytes", "error"}


def at(d, *args):
    return args + ("-H", d.endpoint)


def json_of(r):
    expect(r.code == 0, r)
    return json.loads(r.out)


def commands_on_an_ended_job():
    with Lab("ended") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(epochs=2), CSV)
            c.wait_end(job)
            status = json_of(lab.submit(*at(d, "status", job[:8], "--json")))
            expect(set(status) == JOB_KEYS, sorted(set(status) ^ JOB_KEYS))
            expect(status["state"] == "succeeded" and status["steps"] == 90 and status["epochs"] == 2, status)
            expect(status["submitted_ms"] <= status["started_ms"] <= status["ended_ms"], status)
            expect(status["device"] == "cpu" and status["error"] is None and status["restarts"] == 0, status)
            expect("succeeded" in lab.submit(*at(d, "status", job)).out, "status for people")
            listed = json_of(lab.submit(*at(d, "ls", "--json")))
            expect(listed["schema"] == 1 and [j["job_id"] for j in listed["jobs"]] == [job], listed)
            expect(job[:8] in lab.submit(*at(d, "ls")).out, "ls for people")
            logs = lab.submit(*at(d, "logs", job))
            expect(logs.code == 0 and len(logs.out.encode()) == status["log_bytes"], logs, status["log_bytes"])
            expect(lab.submit(*at(d, "logs", "-f", job)).out == logs.out, "-f ends with the job")
            expect(lab.submit(*at(d, "wait", job)).code == 0, "wait")
            r = lab.submit(*at(d, "cancel", job))
            expect(r.code == 0 and "already" in r.out and "succeeded" in r.out, r)
            r = json_of(lab.submit(*at(d, "fetch", job, lab.path("all"), "--json")))
            expect(os.path.exists(lab.path("all/checkpoints")) and r["files"] >= 7, r, os.listdir(lab.path("all")))
            expect(lab.submit(*at(d, "rm", job)).code == 0, "rm")
            expect(not os.path.exists(os.path.join(d.state_dir, "jobs", job)), "its files are gone")
            for command in ("status", "logs", "wait", "cancel", "rm"):
                r = lab.submit(*at(d, command, job))
                expect(r.code == 66 and "no job" in r.err, command, r)
        d.stop()
        d.start()  # gone for good
        expect(json_of(lab.submit(*at(d, "ls", "--json")))["jobs"] == [], "removed before the restart")


def commands_on_a_running_job():
    with Lab("running") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(train="checkpoint: {every_epochs: 1, keep: 2}", **ENDLESS), CSV)
            c.wait_step(job, 200)
            status = c.status(job)
            expect(status["state"] == "running" and status["progress"]["step"] >= 200, status)
            expect(len(d.workers(job)) == 1, d.workers())
            r = lab.submit(*at(d, "rm", job))
            expect(r.code == 1 and "cancel" in r.err, r)
            r = lab.submit(*at(d, "wait", job, "--timeout", "300ms"))
            expect(r.code == 124, r)
            expect("training rows" in lab.submit(*at(d, "logs", job)).out, "logs so far")
            # Files of a running job: whole ones only.
            files = {f["name"]: f for f in c.call("job.files", {"job": job})["files"]}
            expect(any(n.startswith("checkpoints/step-") for n in files), files)
            r = lab.submit(*at(d, "cancel", job))
            expect(r.code == 0 and "cancelling" in r.out, r)
            end = c.wait_end(job)
            expect(end["state"] == "cancelled" and end["error"]["code"] == 7006, end)
            expect(d.workers() == [], "no worker is left")
            r = lab.submit(*at(d, "wait", job))
            expect(r.code == 1, r)
            # The checkpoint of the cancelled job can be gone on from.
            resumed = c.submit(digits(epochs=1 + end["epochs"]), CSV, resume=job)
            end2 = c.wait_end(resumed)
            expect(end2["state"] == "succeeded" and end2["steps"] == 45 * (1 + end["epochs"]), end2)
            log = lab.submit(*at(d, "logs", resumed)).out
            expect("goes on after step %d" % end["steps"] in log, log)


def one_slot_and_a_queue():
    with Lab("queue") as lab:
        d = lab.daemon()
        with d.connect() as c:
            first = c.submit(digits(**ENDLESS), CSV)
            c.wait_state(first, "running")
            waiting = [c.submit(digits(epochs=1, name="w%d" % i), CSV) for i in range(3)]
            for job in waiting:
                # The reason may be told as an event a moment later than the answer.
                reason = c.watch_until(job, lambda kind, p: kind == "state" and first[:8] in p["reason"] and p["reason"])
                expect("slot" in reason and c.status(job)["state"] == "queued", reason)
            r = lab.submit(*at(d, "ls"))
            expect(r.out.count("queued") == 3 and first[:8] in r.out, r)
            # Cancel one that waits: it never starts.
            expect(c.call("job.cancel", {"job": waiting[1]})["state"] == "cancelled", "cancelled at once")
            end = c.wait_end(waiting[1])
            expect(end["state"] == "cancelled" and end["started_ms"] is None, end)
            c.call("job.cancel", {"job": first})
            ends = [c.wait_end(waiting[i]) for i in (0, 2)]
            expect([e["state"] for e in ends] == ["succeeded"] * 2, ends)
            expect(ends[0]["ended_ms"] <= ends[1]["started_ms"], "in order, one at a time")


def two_slots():
    with Lab("slots") as lab:
        d = lab.daemon(args=["--slots", "2"])
        with d.connect() as c:
            jobs = [c.submit(digits(**ENDLESS), CSV) for _ in range(3)]
            for job in jobs[:2]:
                c.wait_state(job, "running")
            reason = c.watch_until(jobs[2], lambda kind, p: kind == "state" and jobs[1][:8] in p["reason"] and
                                   p["reason"])
            expect(jobs[0][:8] in reason and "all slots" in reason, reason)
            for job in reversed(jobs):
                c.call("job.cancel", {"job": job})
            expect([c.wait_end(job)["state"] for job in jobs] == ["cancelled"] * 3, "all are cancelled")


def cancel_at_any_moment():
    """From the instant of the submit on: whatever the job is doing, it ends cancelled and leaves no worker."""
    with Lab("cancel") as lab:
        d = lab.daemon()
        fds = None
        with d.connect() as c:
            for i in range(12):
                job = c.submit(digits(**ENDLESS), CSV)
                if i % 3 == 1:
                    c.wait_state(job, ("starting", "running"))
                elif i % 3 == 2:
                    c.wait_step(job, i)
                c.call("job.cancel", {"job": job})
                c.call("job.cancel", {"job": job})  # again is no error
                end = c.wait_end(job)
                expect(end["state"] == "cancelled" and end["error"]["code"] == 7006, end)
                expect(d.workers() == [], "no worker is left")
                fds = fds or d.fd_count()
            d.expect_descriptors(fds)


def the_same_submit_twice():
    with Lab("twice") as lab:
        d = lab.daemon()
        with d.connect() as c:
            request = {"key": "k1", "spec": digits(epochs=1),
                       "files": [{"path": "digits.csv", "sha256": c.put_blob(CSV["digits.csv"]), "size": 1}]}
            a = c.send("job.submit", request)
            b = c.send("job.submit", request)  # before the first is answered
            a, b = c.wait(a), c.wait(b)
            expect(a["job"] == b["job"] and a["created"] != b["created"], a, b)
            again = c.call("job.submit", request)
            expect(again["job"] == a["job"] and not again["created"], again)
            code_of(c, 1005, "job.submit", dict(request, spec=digits(epochs=2)))
            code_of(c, 1005, "job.submit", dict(request, key=""))
            c.wait_end(a["job"])
            expect(c.call("job.list")["total"] == 1, "one job")
        d.stop()
        d.start()
        with d.connect() as c:  # a resend after a restart is known too
            c.put_blob(CSV["digits.csv"])
            again = c.call("job.submit", request)
            expect(again["job"] == a["job"] and again["state"] == "succeeded", again)


def code_of(c, code, method, params, payload=b""):
    try:
        c.call(method, params, payload)
    except wire.WireError as e:
        expect(e.code == code, "wanted", code, "got", e)
        return e.map
    raise AssertionError("%s succeeded" % method)


def listing_in_pages():
    with Lab("pages") as lab:
        d = lab.daemon()
        with d.connect() as c:
            name = c.put_blob(CSV["digits.csv"])
            files = [{"path": "digits.csv", "sha256": name, "size": 1}]
            block = c.submit(digits(**ENDLESS), CSV)
            sent = [c.send("job.submit", {"key": "k%d" % i, "spec": digits(name="n%d" % i), "files": files})
                    for i in range(700)]
            ids = [block] + [c.wait(s)["job"] for s in sent]
            seen = []
            while True:
                page = c.call("job.list", {"limit": 10000, "offset": len(seen)})
                expect(page["jobs"] or len(seen) == page["total"], page["total"])
                if not page["jobs"]:
                    break
                seen += [(j["submitted_ms"], j["job_id"]) for j in page["jobs"]]
            times, listed = [s[0] for s in seen], [s[1] for s in seen]
            expect(sorted(listed) == sorted(ids) and times == sorted(times, reverse=True) and listed[-1] == block,
                   "every job once, newest first", len(seen))
            small = c.call("job.list", {"limit": 3, "offset": 1})
            expect([j["job_id"] for j in small["jobs"]] == listed[1:4] and small["total"] == 701, small["total"])
            expect(c.call("job.list", {"limit": 3, "offset": 5000})["jobs"] == [], "beyond the end")
            # `ls -a` shows all of them.
            r = json_of(lab.submit(*at(d, "ls", "-a", "--json")))
            expect(len(r["jobs"]) == 701, len(r["jobs"]))
            for job in ids:
                c.send("job.cancel", {"job": job})
            c.wait_end(block)


def watchers_get_every_byte():
    with Lab("watch") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(epochs=30), CSV)
            conns = [d.connect() for _ in range(6)]
            offsets = [0, 0, 1, 10, 40, 0]
            asked = []
            for w, offset in zip(conns, offsets):
                # An offset beyond what is there yet is refused: wait until there is so much.
                while w.status(job)["log_bytes"] < offset:
                    pass
                asked.append(w.send("job.watch", {"job": job, "log_offset": offset}))
            texts = []
            for w, request, offset in zip(conns, asked, offsets):
                texts.append(collect(w, request, offset))
                w.close()
            whole = texts[0][0]
            size = c.status(job)["log_bytes"]
            expect(len(whole) == size, len(whole), size)
            for (text, reply), offset in zip(texts, offsets):
                expect(text == whole[offset:], "offset", offset, text[:80])
                expect(reply["log_bytes"] == size and reply["state"] == "succeeded", reply)
            with open(os.path.join(d.state_dir, "jobs", job, "log"), "rb") as f:
                expect(f.read() == whole, "what is on disk")
            code_of(c, 1005, "job.watch", {"job": job, "log_offset": size + 1})
            end = c.call("job.watch", {"job": job, "log_offset": size})
            expect(end["log_bytes"] == size, end)


def collect(w, request, offset):
    """All log bytes of a watch, checked to be in order, and its reply; nothing may follow the reply."""
    text = b""
    while request not in w.answers:
        w.pump(time.monotonic() + 60)
    for method, params, payload in w.events:
        expect(method == "job.event" and params["watch"] == request, params)
        if params["kind"] == "log":
            expect(params["log_offset"] == offset + len(text), params, len(text))
            expect(payload.endswith(b"\n"), "chunks end with a line")
            text += payload
    states = [p["state"] for _, p, _ in w.events if p["kind"] == "state"]
    expect(states and states[-1] == "succeeded", states)
    return text, w.wait(request)


def a_big_log():
    """10^5 lines on disk: five watchers at once, one of which reads nothing for a while."""
    with Lab("biglog") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(epochs=1), CSV)
            c.wait_end(job)
        d.stop()
        path = os.path.join(d.state_dir, "jobs", job, "log")
        lines = b"".join(b"2026-01-01T00:00:00.000Z line %d \xc3\xa4\xe2\x82\xac\n" % i for i in range(100000))
        with open(path, "wb") as f:
            f.write(lines)
        d.start()
        conns = [d.connect() for _ in range(5)]
        asked = [w.send("job.watch", {"job": job, "log_offset": 0 if i != 1 else 31}) for i, w in enumerate(conns)]
        for i in (1, 2, 3, 4, 0):  # the first one's socket fills up meanwhile
            offset = 0 if i != 1 else 31
            text = b""
            w = conns[i]
            while asked[i] not in w.answers:
                w.pump(time.monotonic() + 60)
            for _, params, payload in w.events:
                if params["kind"] == "log":
                    expect(params["log_offset"] == offset + len(text) and payload.endswith(b"\n"), params)
                    payload.decode()  # no character is cut
                    text += payload
            expect(text == lines[offset:], i, len(text))
            w.close()
        r = lab.submit(*at(d, "logs", job))
        expect(r.code == 0 and r.out.encode() == lines, len(r.out))
        # Removing the job while its log is being read: the reader is told.
        with d.connect() as w, d.connect() as c:
            request = w.send("job.watch", {"job": job})
            c.call("job.remove", {"job": job})
            try:
                w.wait(request)
            except wire.WireError as e:
                expect(e.code in (7005, 7008), e)
        d.ping()


def resume_from_uploaded_files():
    with Lab("resume") as lab:
        d, e = lab.daemon("a"), lab.daemon("b")
        with d.connect() as c, e.connect() as other:
            whole = c.submit(digits(epochs=4), CSV)
            half = c.submit(digits(epochs=2), CSV)
            want = c.wait_end(whole)["parameters_sha256"]
            c.wait_end(half)
            names = [f["name"] for f in c.call("job.files", {"job": half})["files"]]
            step = sorted(n.split("/")[1] for n in names if n.startswith("checkpoints/"))[-1]
            files = {}
            for n in names:
                if n.startswith("checkpoints/%s/" % step):
                    files[n.split("/")[-1]] = c.call("job.read", {"job": half, "name": n, "offset": 0,
                                                                  "size": wire.CHUNK}, with_payload=True)[1]
            refs = [{"path": n, "sha256": other.put_blob(data), "size": len(data)} for n, data in files.items()]
            job = other.submit(digits(epochs=4), CSV, resume_files=refs)
            end = other.wait_end(job)
            expect(end["state"] == "succeeded" and end["parameters_sha256"] == want, end)
            for bad in ("../x", "/x", "a/../b", ".x", ""):
                code_of(other, 1005, "job.submit", {"key": "x", "spec": digits(), "files": [],
                                                    "resume_files": [dict(refs[0], path=bad)]})
            code_of(other, 1005, "job.submit", {"key": "x", "spec": digits(), "files": [], "resume": job,
                                                "resume_files": refs})
            # By the command line: a directory on this side.
            with open(lab.path("digits.csv"), "wb") as f:
                f.write(CSV["digits.csv"])
            os.mkdir(lab.path(step))
            for n, data in files.items():
                with open(os.path.join(lab.path(step), n), "wb") as f:
                    f.write(data)
            r = lab.submit(*at(e, "run", lab.write("job.yaml", digits(epochs=4)), "--resume", lab.path(step), "--json"))
            expect(r.code == 0 and r.result()["parameters_sha256"] == want, r)
            # A damaged file is found before anything is changed.
            files["model.safetensors"] = files["model.safetensors"][:-1] + b"\x77"
            refs = [{"path": n, "sha256": other.put_blob(data), "size": len(data)} for n, data in files.items()]
            end = other.wait_end(other.submit(digits(epochs=4), CSV, resume_files=refs))
            expect(end["state"] == "failed" and end["error"]["code"] == 7007, end)


def blobs_on_the_wire():
    with Lab("blobs") as lab:
        d = lab.daemon()
        data = os.urandom(10 << 20)
        name = hashlib.sha256(data).hexdigest()
        with d.connect() as c:
            c.call("blob.put", {"sha256": name, "size": len(data), "offset": 0}, data[:wire.CHUNK])
        d.kill()
        d.wait()
        d.start()
        with d.connect() as c:
            have = c.call("blob.have", {"sha256": [name, "0" * 64]})
            expect(have == {"have": [False, False], "received": [wire.CHUNK, 0]}, have)
            # All at once, from two connections: each chunk lands once.
            with d.connect() as other:
                sent = []
                for k in (c, other):
                    for at_ in range(wire.CHUNK, len(data), wire.CHUNK):
                        sent.append((k, k.send("blob.put", {"sha256": name, "size": len(data), "offset": at_},
                                               data[at_:at_ + wire.CHUNK])))
                replies = [k.wait(r) for k, r in sent]
                expect(any(r["complete"] for r in replies), replies)
            got = b""
            while len(got) < len(data):
                reply, part = c.call("blob.get", {"sha256": name, "offset": len(got), "size": wire.CHUNK},
                                     with_payload=True)
                expect(reply["total"] == len(data) and part, reply)
                got += part
            expect(got == data, "the bytes")
            code_of(c, 7002, "blob.get", {"sha256": "0" * 64, "offset": 0, "size": 1})
            code_of(c, 1005, "blob.get", {"sha256": "../../../../etc/passwd", "offset": 0, "size": 1})
            code_of(c, 1005, "blob.put", {"sha256": "A" * 64, "size": 1, "offset": 0}, b"x")
            code_of(c, 7003, "blob.put", {"sha256": "0" * 64, "size": 1, "offset": 0}, b"x")
            code_of(c, 1005, "blob.have", {"sha256": ["0" * 64] * 65})
            for bad in ("../spec.yaml", "/etc/passwd", "", "a/../../spec.yaml"):
                job = c.submit(digits(epochs=1), CSV, key="only")
                code_of(c, 1005, "job.read", {"job": job, "name": bad, "offset": 0, "size": 10})
            c.wait_end(job)


def uploads_within_a_limit():
    """What nobody used for the longest time goes; not what a job needs that waits or runs."""
    with Lab("uploads") as lab:
        d = lab.daemon(args=["--config", lab.write("conf", "blob-limit = 1MiB\nblob-keep = 10ms\n")])

        def there(name):
            return os.path.exists(os.path.join(d.state_dir, "blobs", name[:2], name))

        with d.connect() as c:
            job = c.submit(digits(**ENDLESS), CSV)
            waiting = c.submit(digits(epochs=1), {"digits.csv": CSV["digits.csv"] + b"\n"})
            c.wait_step(job, 5)
            data = [hashlib.sha256(CSV["digits.csv"] + end).hexdigest() for end in (b"", b"\n")]
            expect(all(there(name) for name in data), "data of jobs")
            names = [c.put_blob(os.urandom(400 << 10)) for _ in range(4)]
            deadline = time.monotonic() + 30 * net_lab.SLOW
            while sum(there(name) for name in names) > 1:
                expect(time.monotonic() < deadline, "they stay", [there(name) for name in names])
                c.call("ping")
            expect(there(names[-1]), "the newest one stays")
            expect(all(there(name) for name in data), "so do those of jobs that run and wait")
            c.call("job.cancel", {"job": job})
            expect(c.wait_end(waiting)["state"] == "succeeded", "its data were there")


net_lab.main(commands_on_an_ended_job, commands_on_a_running_job, one_slot_and_a_queue, two_slots,
             cancel_at_any_moment, the_same_submit_twice, listing_in_pages, watchers_get_every_byte, a_big_log,
             resume_from_uploaded_files, blobs_on_the_wire,
             uploads_within_a_limit)
