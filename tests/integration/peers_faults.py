"""Daemons and workers of a job on several hosts are killed: everybody says whom they lost, soon, and nothing stays.

With the argument `slow` the moments are random, many times over, and a stopped host is waited for."""
import os
import random
import signal
import sys
import time

import lab_path  # noqa: F401
import net_lab
from net_lab import Lab, digits, expect, processes_of, wait_gone

CSV = {"digits.csv": net_lab.example("digits.csv")}
OFTEN = "checkpoint: {every_epochs: 1, keep: 2}"
ENDLESS = 1000000
SOON = 2.0 * net_lab.SLOW
WORLD = 3


class Trial:
    """A job on WORLD daemons, followed by everyo-submit, that runs until something happens to it."""

    def __init__(self, lab, **changes):
        self.lab = lab
        self.daemons = [lab.daemon("d%d" % i) for i in range(WORLD)]
        self.hosts = [d.endpoint for d in self.daemons]
        with open(lab.path("digits.csv"), "wb") as f:
            f.write(CSV["digits.csv"])
        options = dict({"epochs": ENDLESS, "train": OFTEN, "threads": 1}, **changes)
        self.spec = lab.write("job.yaml", digits(**options))
        self.client = None
        self.job = None

    def start(self, step=30):
        """Submits by the command line and waits for a step (None: only for the submit)."""
        import json
        self.client = self.lab.popen("everyo-submit", "run", self.spec, "-H", ",".join(self.hosts), "--json")
        while self.job is None:
            line = json.loads(self.client.stdout.readline())
            if line["event"] == "submitted":
                self.job = line["job_id"]
        if step is not None:
            with self.daemons[0].connect() as c:
                c.wait_step(self.job, step)

    def end(self):
        """The client's end, and how long it took from now."""
        begin = time.monotonic()
        r = self.lab.finish(self.client)
        self.took = time.monotonic() - begin
        return r

    def job_workers(self):
        return [pid for d in self.daemons for pid in d.workers(self.job)]

    def survivors_are_well(self, but=None):
        for d in self.daemons:
            if d is but:
                continue
            d.ping(timeout=2)
            left = d.workers(self.job)
            expect(wait_gone(left, SOON), "workers stay on", d.name, processes_of(d.state_dir))

    def names(self, r, host):
        """The failure names the host as it was typed."""
        expect(r.code == 1, r)
        expect(self.took < SOON, "took", self.took, r)
        error = r.result()["error"]
        expect(r.result()["state"] == "failed" and error["host"] == host, error)
        expect(host in r.err or host in r.out, r)
        return error


def killed_worker(rank):
    with Lab("worker%d" % rank) as lab:
        t = Trial(lab)
        t.start()
        os.kill(t.daemons[rank].workers(t.job)[0], signal.SIGKILL)
        r = t.end()
        error = t.names(r, t.hosts[rank])
        expect(error["code"] in (4005, 5001) and error["rank"] == rank, error)
        t.survivors_are_well()
        # The same daemons train the next job.
        with t.daemons[0].connect() as c:
            end = c.wait_end(c.submit(digits(epochs=1, threads=1), CSV, hosts=t.hosts))
            expect(end["state"] == "succeeded", end)


def killed_worker_of_a_member():
    killed_worker(2)


def killed_worker_of_the_coordinator():
    killed_worker(0)


def killed_member_daemon():
    with Lab("member") as lab:
        t = Trial(lab)
        t.start()
        lost = t.daemons[1]
        processes = list(processes_of(lost.state_dir))
        lost.kill()
        r = t.end()
        lost.wait()
        error = t.names(r, t.hosts[1])
        expect(error["code"] == 5001 and error["rank"] == 1, error)
        t.survivors_are_well(but=lost)
        expect(wait_gone(processes, SOON), "a worker outlives its daemon")
        with t.daemons[2].connect() as c:  # the other member knows whom it lost as well
            end = c.wait_end(t.job)
            expect(end["state"] == "failed" and end["error"]["host"] == t.hosts[1], end)


def killed_coordinator_daemon():
    with Lab("coordinator") as lab:
        t = Trial(lab)
        t.start(step=60)  # there is a checkpoint to go on from
        lost = t.daemons[0]
        processes = list(processes_of(lost.state_dir))
        begin = time.monotonic()
        lost.kill()
        r = t.end()
        lost.wait()
        expect(r.code == 1 and t.took < SOON, t.took, r)
        expect(t.hosts[0] in r.err and "lost" in r.err, r)
        result = r.result()
        expect(result["error"]["code"] == 5001 and result["error"]["host"] == t.hosts[0], result)
        t.survivors_are_well(but=lost)
        expect(wait_gone(processes, SOON), "a worker outlives its daemon")
        for d in t.daemons[1:]:
            with d.connect() as c:
                end = c.wait_end(t.job)
                expect(end["state"] == "failed" and end["error"]["host"] == t.hosts[0], end)
        expect(time.monotonic() - begin < 2 * SOON, "all of it soon")
        lost.start()
        with lost.connect() as c:
            expect(c.status(t.job)["state"] == "interrupted", c.status(t.job))
            epochs = c.status(t.job)["epochs"] + 40
            end = c.wait_end(c.submit(digits(epochs=epochs, threads=1), CSV, hosts=t.hosts, resume=t.job))
            expect(end["state"] == "succeeded", end)


def killed_worker_and_restart():
    """on_failure: restart goes on from the checkpoint with a new epoch, and ends with the bits of an unharmed run."""
    with Lab("restart") as lab:
        t = Trial(lab, epochs=25, on_failure="restart")
        t.start(step=None)
        t.client.kill()
        t.client.communicate()
        with t.daemons[0].connect() as c:
            want = c.wait_end(t.job)
            expect(want["state"] == "succeeded", want)
            for rank in (1, 0):
                job = c.submit(digits(epochs=25, train=OFTEN, threads=1, on_failure="restart"), CSV, hosts=t.hosts)
                c.wait_step(job, 200)
                os.kill(t.daemons[rank].workers(job)[0], signal.SIGKILL)
                c.watch_until(job, lambda kind, p: kind == "state" and p["state"] == "queued" and
                              t.hosts[rank] in p["reason"])  # pylint: disable=cell-var-from-loop
                end = c.wait_end(job)
                expect(end["state"] == "succeeded" and end["restarts"] == 1, end)
                expect(end["parameters_sha256"] == want["parameters_sha256"], "other bits")
        t.survivors_are_well()


def member_daemon_comes_back():
    """on_failure: restart survives a member's daemon that is started again meanwhile."""
    with Lab("back") as lab:
        t = Trial(lab, epochs=60, on_failure="restart")
        t.start(step=100)
        t.daemons[2].kill()
        t.daemons[2].wait()
        t.daemons[2].start()
        r = t.end()
        expect(r.code == 0 and r.result()["state"] == "succeeded", r)
        with t.daemons[0].connect() as c:
            expect(c.status(t.job)["restarts"] >= 1, c.status(t.job))


def orderly_end_of_a_member():
    with Lab("orderly") as lab:
        t = Trial(lab)
        t.start()
        begin = time.monotonic()
        expect(t.daemons[1].stop() == 0, "exit 0")
        r = t.end()
        expect(time.monotonic() - begin < SOON, "soon")
        error = t.names(r, t.hosts[1])
        expect(error["code"] in (6007, 5001), error)
        t.survivors_are_well(but=t.daemons[1])


def a_step_that_fails_on_all():
    """A diverging model is no lost peer: the cause itself is reported, by all ranks alike."""
    with Lab("nan") as lab:
        t = Trial(lab)
        bad = digits(epochs=50, threads=1).replace("adam: {lr: 0.005}", "sgd: {lr: 1e30}")
        with t.daemons[0].connect() as c:
            end = c.wait_end(c.submit(bad, CSV, hosts=t.hosts))
            expect(end["state"] == "failed" and end["error"]["code"] == 7004, end)
        t.survivors_are_well()


# ---- slow ----

def stopped_member():
    """SIGSTOP: the host answers nothing and closes nothing."""
    with Lab("stopped") as lab:
        t = Trial(lab)
        t.start()
        stopped = t.daemons[1]
        worker = stopped.workers(t.job)[0]
        os.kill(worker, signal.SIGSTOP)
        stopped.kill(signal.SIGSTOP)
        r = lab.finish(t.client, timeout=60)
        expect(r.code == 1, r)
        error = r.result()["error"]
        expect(error["code"] == 5002 and error["host"] == t.hosts[1], error)
        t.survivors_are_well(but=stopped)
        stopped.kill(signal.SIGCONT)
        os.kill(worker, signal.SIGCONT)
        stopped.ping()
        expect(wait_gone(stopped.workers(t.job), 5), "its worker hears that the job has ended")


def stopped_worker():
    """Only the worker stands still: its daemon answers heartbeats, the collective's deadline tells."""
    with Lab("stoppedw") as lab:
        t = Trial(lab)
        t.start()
        worker = t.daemons[1].workers(t.job)[0]
        os.kill(worker, signal.SIGSTOP)
        r = lab.finish(t.client, timeout=90)
        error = r.result()["error"]
        expect(r.code == 1 and error["code"] == 5002 and error["host"] == t.hosts[1], r)
        t.survivors_are_well()
        expect(wait_gone([worker], 5), "the stopped worker stays")


def random_moments():
    """From before the submit is answered to the middle of training: any process dies at any moment."""
    seed = int(os.environ.get("EO_TEST_SEED", "1"))
    r = random.Random(seed)
    print("  EO_TEST_SEED=%d" % seed)
    for trial in range(int(os.environ.get("EO_TEST_TRIALS", "24"))):
        with Lab("random") as lab:
            one_random_trial(lab, r, trial)


def one_random_trial(lab, r, trial):
    t = Trial(lab, on_failure=r.choice(["fail", "fail", "restart"]), epochs=r.choice([3, ENDLESS, ENDLESS]))
    rank = r.randrange(WORLD)
    what = r.choice(["daemon", "worker"])
    t.start(step=None)
    time.sleep(r.choice([0, r.random() * 0.2, r.random() * 1.0]))  # the moment itself is what is random
    victim = t.daemons[rank]
    workers = victim.workers(t.job)
    if what == "daemon":
        victim.kill()
        victim.wait()
    elif workers:
        os.kill(workers[0], signal.SIGKILL)
    killed = time.monotonic()
    print("  trial %d: %s of rank %d%s" % (trial, what, rank, "" if what == "daemon" or workers else " (not there yet)"))
    with_restart = "restart" in open(t.spec).read()
    if what == "worker" and (not workers or with_restart):
        cancel(t)
        end = lab.finish(t.client)
        expect(end.code in (0, 1), end)
    elif what == "daemon" and rank != 0 and with_restart:
        cancel(t)
        end = lab.finish(t.client)
        expect(end.code in (0, 1), end)
    else:
        end = lab.finish(t.client)
        took = time.monotonic() - killed
        expect(end.code in (0, 1), end)
        if end.code == 1:
            error = end.result()["error"]
            expect(error["host"] == t.hosts[rank], error)
            expect(took < SOON, "took", took, end)
    for d in t.daemons:
        if d is not victim or what == "worker":
            d.ping(timeout=2)
            expect(wait_gone(d.workers(t.job), SOON), "workers stay on", d.name, processes_of(d.state_dir))
    if what == "daemon":
        expect(wait_gone(list(processes_of(victim.state_dir)), SOON), "workers stay on", victim.name)


def cancel(t):
    with t.daemons[0].connect() as c:
        c.call("job.cancel", {"job": t.job})
        c.wait_end(t.job)


QUICK = (killed_worker_of_a_member, killed_worker_of_the_coordinator, killed_member_daemon, killed_coordinator_daemon,
         killed_worker_and_restart, member_daemon_comes_back, orderly_end_of_a_member, a_step_that_fails_on_all)
LONG = (stopped_member, stopped_worker, random_moments)
if sys.argv[1:2] == ["slow"]:
    del sys.argv[1]
    net_lab.main(*LONG)
else:
    net_lab.main(*QUICK)
