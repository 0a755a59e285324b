"""Several daemons on loopback train one job: equal bits on all ranks, the result of one process, uneven shards."""
import os
import subprocess

import lab_path  # noqa: F401
import net_lab
from net_lab import EXAMPLES, Lab, Skip, digits, expect, need_root

CSV = {"digits.csv": net_lab.example("digits.csv")}


def run(lab, hosts, spec, name, *extra):
    with open(lab.path("digits.csv"), "wb") as f:
        f.write(CSV["digits.csv"])
    r = lab.submit("run", lab.write(name + ".yaml", spec), "-H", ",".join(hosts), "--json", "--output",
                   lab.path(name), *extra)
    expect(r.code == 0, r)
    return r.result()


def check_ranks(result, hosts):
    expect(result["state"] == "succeeded" and result["world_size"] == len(hosts), result)
    expect([k["host"] for k in result["ranks"]] == list(hosts), result["ranks"])
    expect([k["rank"] for k in result["ranks"]] == list(range(len(hosts))), result["ranks"])
    expect({k["parameters_sha256"] for k in result["ranks"]} == {result["parameters_sha256"]}, result["ranks"])


def agree(lab, daemons, worlds, spec, tolerance, name, steps=100):
    """N ranks against one process."""
    one = run(lab, [daemons[0].endpoint], spec, name + "1", "--set", "train.max_steps=%d" % steps)
    expect(one["steps"] == steps, one)
    for n in worlds:
        hosts = [d.endpoint for d in daemons[:n]]
        many = run(lab, hosts, spec, "%s%d" % (name, n), "--set",
                   "train.max_steps=%d" % steps)
        check_ranks(many, hosts)
        expect(many["steps"] == steps, many)
        distance = net_lab.relative_l2(lab.path("%s%d/model.safetensors" % (name, n)),
                                       lab.path(name + "1/model.safetensors"))
        print("  %s, %d ranks: relative L2 %.3g" % (name, n, distance))
        expect(distance <= tolerance, name, n, distance)
        expect(abs(many["metrics"]["val_loss"] - one["metrics"]["val_loss"]) < 1e-3, many, one)


def float32_agrees_with_one_process():
    with Lab("f32") as lab:
        daemons = [lab.daemon("d%d" % i) for i in range(4)]
        agree(lab, daemons, (2, 3, 4), digits(epochs=50), 1e-6, "float32")


def float64_agrees_with_one_process():
    with Lab("f64") as lab:
        daemons = [lab.daemon("d%d" % i) for i in range(4)]
        agree(lab, daemons, (2, 3, 4), digits(epochs=50, precision="float64"), 1e-10, "float64")


def uneven_shards():
    """Batches that 3 ranks cannot share evenly, a last batch smaller than the world, dropout, momentum, clipping."""
    with Lab("uneven") as lab:
        daemons = [lab.daemon("d%d" % i) for i in range(3)]
        # 1438 training rows: the last batch of 31 has 12 rows, of 1437 it has 1.
        agree(lab, daemons, (2, 3), digits(epochs=50, batch=31), 1e-6, "batch31")
        spec = digits(epochs=200, batch=1437, train="clip_norm: 0.5")
        spec = spec.replace("adam: {lr: 0.005}", "sgd: {lr: 0.1, momentum: 0.9}").replace(
            "  - relu\n", "  - relu\n  - dropout: {p: 0.2}\n")
        agree(lab, daemons, (3,), spec, 1e-6, "batch1437", steps=21)


def digits_on_two_hosts():
    """The example as people run it, with the accuracy it promises; data travels once and is shared by the daemons."""
    with Lab("two") as lab:
        a, b = lab.daemon("a"), lab.daemon("b")
        hosts = [a.endpoint, b.endpoint]
        r = lab.submit("run", os.path.join(EXAMPLES, "digits.yaml"), "-H", ",".join(hosts), "--json", "--output",
                       lab.path("out"))
        expect(r.code == 0, r)
        check_ranks(r.result(), hosts)
        expect(r.result()["metrics"]["val_accuracy"] >= 0.96, r.result())
        log = "".join(x["text"] for x in r.lines() if x["event"] == "log")
        expect("of data sent to " + b.endpoint in log and "[rank 1 " + b.endpoint + "]" in log, log)
        expect(os.listdir(lab.path("out")) and "model.safetensors" in os.listdir(lab.path("out")), "the files")
        for d in (a, b):
            expect(d.workers() == [], "no worker is left on", d.name)
        # The member remembers its part, and says who coordinates.
        job = r.result()["job_id"]
        with b.connect() as c:
            member = c.status(job)
            expect(member["state"] == "succeeded" and
                   member["parameters_sha256"] == r.result()["parameters_sha256"], member)
        # Again: nothing has to travel.
        r = lab.submit("run", os.path.join(EXAMPLES, "digits.yaml"), "-H", ",".join(hosts), "--json", "--set",
                       "train.epochs=1")
        log = "".join(x["text"] for x in r.lines() if x["event"] == "log")
        expect(r.code == 0 and "data sent" not in log, r)


def hosts_in_the_job_file():
    with Lab("spec") as lab:
        a, b = lab.daemon("a"), lab.daemon("b")
        with open(lab.path("digits.csv"), "wb") as f:
            f.write(CSV["digits.csv"])
        job = lab.write("job.yaml", digits(epochs=1, hosts="[\"%s\", \"%s\"]" % (b.endpoint, a.endpoint)))
        r = lab.submit("run", job, "--json")
        expect(r.code == 0, r)
        check_ranks(r.result(), [b.endpoint, a.endpoint])


def resume_on_another_number_of_hosts():
    with Lab("resume") as lab:
        daemons = [lab.daemon("d%d" % i) for i in range(3)]
        hosts = [d.endpoint for d in daemons]
        half = run(lab, hosts[:2], digits(epochs=2), "half")
        whole = run(lab, hosts[:1], digits(epochs=4), "whole")
        on = run(lab, hosts, digits(epochs=4), "on", "--resume", half["job_id"])
        check_ranks(on, hosts)
        expect(on["steps"] == whole["steps"] == 180, on, whole)
        distance = net_lab.relative_l2(lab.path("on/model.safetensors"), lab.path("whole/model.safetensors"))
        expect(distance < 1e-5, distance)
        # The checkpoints are with the coordinator: said by the member, who knows the job.
        with open(lab.path("digits.csv"), "wb") as f:
            f.write(CSV["digits.csv"])
        r = lab.submit("run", lab.write("x.yaml", digits(epochs=4)), "-H", hosts[1], "--resume", half["job_id"])
        expect(r.code == 1 and hosts[0] in r.err, r)


def cancel_and_drain_on_several_hosts():
    with Lab("stop") as lab:
        daemons = [lab.daemon("d%d" % i) for i in range(3)]
        hosts = [d.endpoint for d in daemons]
        spec = digits(train="checkpoint: {every_epochs: 1, keep: 2}", epochs=1000000)
        with daemons[0].connect() as c:
            for step in (0, 1, 40):
                job = c.submit(spec, CSV, hosts=hosts)
                if step:
                    c.wait_step(job, step)
                c.call("job.cancel", {"job": job})
                end = c.wait_end(job)
                expect(end["state"] == "cancelled", end)
                for d in daemons:
                    expect(d.workers() == [], "no worker is left on", d.name)
            with daemons[1].connect() as m:
                job = c.submit(spec, CSV, hosts=hosts)
                c.wait_step(job, 5)
                try:
                    m.call("job.cancel", {"job": job})
                    raise AssertionError("a member cancelled")
                except net_lab.wire.WireError as e:
                    expect(e.code == 7010 and hosts[0] in e.map["message"] + e.map["hint"], e)
        # SIGTERM of the coordinator: a checkpoint by all, exit 0.
        expect(daemons[0].stop() == 0, "exit 0")
        with daemons[1].connect() as m:
            end = m.wait_end(job)
            expect(end["state"] == "cancelled" and hosts[0] in end["reason"], end)
        for d in daemons[1:]:
            expect(d.workers() == [], "no worker is left on", d.name)
        daemons[0].start()
        with daemons[0].connect() as c:
            end = c.status(job)
            expect(end["state"] == "interrupted", end)
            epochs = end["epochs"] + 1
            again = c.wait_end(c.submit(spec.replace("1000000", str(epochs)), CSV, hosts=hosts, resume=job))
            expect(again["state"] == "succeeded" and again["steps"] == 45 * epochs, again)


def crossed_jobs():
    """{a,b} and {b,a} at the same time, several times: both finish, and who waits says for whom."""
    with Lab("crossed") as lab:
        a, b = lab.daemon("a"), lab.daemon("b")
        with a.connect() as ca, b.connect() as cb:
            for d in (ca, cb):
                d.put_blob(CSV["digits.csv"])
            for i in range(4):
                ja = ca.submit(digits(epochs=2, name="ab%d" % i), CSV, hosts=[a.endpoint, b.endpoint])
                jb = cb.submit(digits(epochs=2, name="ba%d" % i), CSV, hosts=[b.endpoint, a.endpoint])
                ends = [ca.wait_end(ja), cb.wait_end(jb)]
                expect([e["state"] for e in ends] == ["succeeded"] * 2, ends)
            # Three of each at once, with jobs of one host between.
            jobs = []
            for i in range(3):
                jobs.append((ca, ca.submit(digits(epochs=1), CSV, hosts=[a.endpoint, b.endpoint])))
                jobs.append((cb, cb.submit(digits(epochs=1), CSV, hosts=[b.endpoint, a.endpoint])))
                jobs.append((ca, ca.submit(digits(epochs=1), CSV)))
                jobs.append((cb, cb.submit(digits(epochs=1), CSV)))
            ends = [c.wait_end(j) for c, j in jobs]
            expect([e["state"] for e in ends] == ["succeeded"] * 12, ends)
        for d in (a, b):
            expect(d.workers() == [], "no worker is left on", d.name)


def a_busy_host_is_named():
    with Lab("busy") as lab:
        a, b = lab.daemon("a"), lab.daemon("b")
        with a.connect() as ca, b.connect() as cb:
            blocker = cb.submit(digits(epochs=1000000), CSV)
            cb.wait_state(blocker, "running")
            job = ca.submit(digits(epochs=1), CSV, hosts=[a.endpoint, b.endpoint])
            reason = ca.watch_until(job, lambda kind, p: kind == "state" and p["state"] == "queued" and
                                    blocker[:8] in p["reason"] and p["reason"])
            expect(b.endpoint in reason, reason)
            # Meanwhile the slot here is not held: a job of this host alone runs.
            alone = ca.submit(digits(epochs=1), CSV)
            expect(ca.wait_end(alone)["state"] == "succeeded", "a's slot is free while b is busy")
            # And b shows who holds its slot, when a job of a does.
            cb.call("job.cancel", {"job": blocker})
            expect(ca.wait_end(job)["state"] == "succeeded", "runs once b is free")
            long = ca.submit(digits(epochs=1000000), CSV, hosts=[a.endpoint, b.endpoint])
            ca.wait_step(long, 1)
            waits = cb.submit(digits(epochs=1), CSV)
            reason = cb.watch_until(waits, lambda kind, p: kind == "state" and long[:8] in p["reason"] and p["reason"])
            expect(a.endpoint in reason, reason)
            ca.call("job.cancel", {"job": long})
            expect(cb.wait_end(waits)["state"] == "succeeded", "its turn comes")


def two_network_namespaces():
    """Two daemons that reach each other over a veth pair only."""
    need_root()
    names = ["eo%d%s" % (os.getpid() % 100000, s) for s in "ab"]

    def ip(*args):
        r = subprocess.run(("ip",) + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if r.returncode != 0:
            raise Skip("`ip %s`: %s" % (" ".join(args), r.stderr.decode().strip()))

    try:
        subprocess.run(["ip", "-V"], check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise Skip("needs iproute2") from None
    made = []
    try:
        for n in names:
            ip("netns", "add", n)
            made.append(n)
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for i, n in enumerate(names):
            ip("-n", n, "addr", "add", "10.99.0.%d/24" % (i + 1), "dev", n)
            ip("-n", n, "link", "set", n, "up")
            ip("-n", n, "link", "set", "lo", "up")
        with Lab("netns") as lab:
            daemons = [lab.daemon("d%d" % i, netns=n, listen="10.99.0.%d:17743" % (i + 1), args=["--insecure"])
                       for i, n in enumerate(names)]
            hosts = [d.endpoint for d in daemons]
            with open(lab.path("digits.csv"), "wb") as f:
                f.write(CSV["digits.csv"])
            job = lab.write("job.yaml", digits(epochs=50))
            inside = ["ip", "netns", "exec", names[0], os.path.join(net_lab.BIN, "everyo-submit"), "run", job, "--json",
                      "--set", "train.max_steps=100"]
            results = []
            for n in (1, 2):
                out = lab.path("out%d" % n)
                r = subprocess.run(inside + ["-H", ",".join(hosts[:n]), "--output", out], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, timeout=120)
                r = net_lab.Finished(r.returncode, r.stdout.decode(), r.stderr.decode())
                expect(r.code == 0, r)
                results.append(r.result())
            check_ranks(results[1], hosts)
            distance = net_lab.relative_l2(lab.path("out2/model.safetensors"), lab.path("out1/model.safetensors"))
            expect(distance <= 1e-6, distance)
    finally:
        for n in made:
            subprocess.run(["ip", "netns", "del", n])


net_lab.main(digits_on_two_hosts, float32_agrees_with_one_process, float64_agrees_with_one_process, uneven_shards,
             hosts_in_the_job_file, resume_on_another_number_of_hosts, cancel_and_drain_on_several_hosts, crossed_jobs,
             a_busy_host_is_named, two_network_namespaces)
