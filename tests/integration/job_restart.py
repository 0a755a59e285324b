"""Daemons and workers that end while jobs run: drain, kill -9, restart, going on bit for bit."""
import os
import signal
import time

import lab_path  # noqa: F401
import net_lab
from net_lab import ENDLESS, Lab, digits, expect, processes_of, wait_gone

CSV = {"digits.csv": net_lab.example("digits.csv")}
OFTEN = "checkpoint: {every_epochs: 1, keep: 2}"
RESTART = {"on_failure": "restart"}


def uninterrupted(d, epochs):
    with d.connect() as c:
        end = c.wait_end(c.submit(digits(epochs=epochs, train=OFTEN), CSV))
        expect(end["state"] == "succeeded", end)
        return end["parameters_sha256"]


def log_of(d, job):
    with open(os.path.join(d.state_dir, "jobs", job, "log")) as f:
        return f.read()


def drain_and_go_on():
    """SIGTERM: a checkpoint, exit 0; the next start goes on and ends with the very bits of an uninterrupted run."""
    with Lab("drain") as lab:
        d = lab.daemon()
        want = uninterrupted(d, 20)
        with d.connect() as c:
            job = c.submit(digits(epochs=20, train=OFTEN, **RESTART), CSV)
            waiting = c.submit(digits(epochs=1), CSV)
            watch = c.send("job.watch", {"job": job})
            c.wait_step(job, 100)
            d.kill(signal.SIGTERM)
            state = c.wait(watch)
            expect(state["state"] == "interrupted", state)
        expect(d.wait() == 0, "exit 0")
        expect(processes_of(d.state_dir) == {}, "no worker is left")
        d.start()
        with d.connect() as c:
            end = c.wait_end(job)
            expect(end["state"] == "succeeded" and end["restarts"] == 1, end)
            expect(end["parameters_sha256"] == want, "other bits", end["parameters_sha256"], want)
            expect(end["steps"] == 20 * 45 and end["ended_ms"] >= end["started_ms"], end)
            expect(c.wait_end(waiting)["state"] == "succeeded", "what waited runs too")
        expect("goes on after step" in log_of(d, job), log_of(d, job))


def drain_without_restart():
    with Lab("drain2") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(train=OFTEN, **ENDLESS), CSV)
            c.wait_step(job, 50)
        expect(d.stop() == 0, "exit 0")
        d.start()
        with d.connect() as c:
            end = c.status(job)
            expect(end["state"] == "interrupted" and end["ended_ms"] is not None, end)
            # Resumed by hand.
            epochs = end["epochs"] + 1
            again = c.wait_end(c.submit(digits(epochs=epochs, train=OFTEN), CSV, resume=job))
            expect(again["state"] == "succeeded" and again["steps"] == 45 * epochs, again)
        r = lab.submit("wait", job, "-H", d.endpoint)
        expect(r.code == 1, r)


def drain_while_starting():
    """A job that has not begun is queued again, and no worker outlives the daemon."""
    with Lab("drain3") as lab:
        d = lab.daemon()
        for i in range(4):
            with d.connect() as c:
                job = c.submit(digits(epochs=1), CSV)
                if i % 2:
                    c.wait_state(job, ("starting", "running", "succeeded"))
            expect(d.stop() == 0, "exit 0")
            expect(processes_of(d.state_dir) == {}, "no worker is left")
            d.start()
            with d.connect() as c:
                end = c.status(job)
                if end["state"] != "interrupted":  # it had made steps
                    end = c.wait_end(job)
                expect(end["state"] in ("succeeded", "interrupted"), end)


def second_signal_ends_at_once():
    with Lab("twice") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(**ENDLESS), CSV)
            c.wait_step(job, 10)
            worker = d.workers(job)[0]
            os.kill(worker, signal.SIGSTOP)  # it will not write a checkpoint
            d.kill(signal.SIGTERM)
            d.wait_notify("STOPPING=1")  # two signals at once are one
            d.kill(signal.SIGTERM)
        begin = time.monotonic()
        d.wait()
        expect(time.monotonic() - begin < 10 * net_lab.SLOW, "at once")
        expect(wait_gone([worker], 2), "the stopped worker is gone too")
        d.start()
        with d.connect() as c:
            expect(c.status(job)["state"] == "interrupted", c.status(job))


def killed_daemon():
    """kill -9 of everyod: its workers end; the next start knows everything that was acknowledged."""
    with Lab("kill") as lab:
        d = lab.daemon()
        want = uninterrupted(d, 30)
        with d.connect() as c:
            restarts = c.submit(digits(epochs=30, train=OFTEN, **RESTART), CSV)
            waiting = c.submit(digits(epochs=1), CSV)
            c.wait_step(restarts, 100)
        processes = list(processes_of(d.state_dir))
        expect(len(processes) == 2, processes)
        d.kill()
        d.wait()
        expect(wait_gone(processes, 2), "a worker outlives its daemon")
        d.start()
        with d.connect() as c:
            end = c.wait_end(restarts)
            expect(end["state"] == "succeeded" and end["restarts"] == 1, end)
            expect(end["parameters_sha256"] == want, "other bits")
            expect(c.wait_end(waiting)["state"] == "succeeded", "the queue survives")
            stays = c.submit(digits(train=OFTEN, **ENDLESS), CSV)
            c.wait_step(stays, 50)
        d.kill()
        d.wait()
        d.start()
        with d.connect() as c:
            end = c.status(stays)
            expect(end["state"] == "interrupted" and "daemon ended" in end["reason"], end)
            expect(end["log_bytes"] == len(log_of(d, stays)), end)
            # A log line after the restart follows what was there.
            c.call("job.cancel", {"job": stays})
            expect(c.status(stays)["state"] == "interrupted", "ended is ended")


def killed_daemon_at_once():
    """The answer to a submit means: it is on disk."""
    with Lab("atonce") as lab:
        d = lab.daemon()
        jobs = []
        for i in range(4):
            with d.connect() as c:
                jobs.append(c.submit(digits(epochs=1, name="j%d" % i), CSV))
            d.kill()
            d.wait()
            d.start()
        with d.connect() as c:
            listed = {j["job_id"] for j in c.call("job.list")["jobs"]}
            expect(listed == set(jobs), listed, jobs)


def killed_worker_fails_the_job():
    with Lab("worker") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(train=OFTEN, **ENDLESS), CSV)
            c.wait_step(job, 20)
            begin = time.monotonic()
            os.kill(d.workers(job)[0], signal.SIGKILL)
            end = c.wait_end(job)
            expect(time.monotonic() - begin < 2 * net_lab.SLOW, "soon")
            expect(end["state"] == "failed" and end["error"]["code"] == 4005, end)
            expect("signal 9" in end["error"]["message"] and "EO-4005" in end["reason"], end)
            expect(d.workers() == [], "nothing is left")
            # The daemon and the slot are fine.
            expect(c.wait_end(c.submit(digits(epochs=1), CSV))["state"] == "succeeded", "the next job")
        r = lab.submit("wait", job, "-H", d.endpoint, "--json")
        expect(r.code == 1 and r.result()["error"]["code"] == 4005, r)


def killed_worker_restarts_the_job():
    with Lab("again") as lab:
        d = lab.daemon()
        want = uninterrupted(d, 30)
        with d.connect() as c:
            job = c.submit(digits(epochs=30, train=OFTEN, **RESTART), CSV)
            c.wait_step(job, 100)
            os.kill(d.workers(job)[0], signal.SIGKILL)
            c.watch_until(job, lambda kind, p: kind == "state" and p["state"] == "queued" and "EO-4005" in p["reason"])
            end = c.wait_end(job)
            expect(end["state"] == "succeeded" and end["restarts"] == 1 and end["error"] is None, end)
            expect(end["parameters_sha256"] == want, "other bits")
        expect("restarting from the last checkpoint" in log_of(d, job), log_of(d, job))


def a_job_that_dies_again_and_again():
    """Without progress a job is not restarted for ever, and waits longer each time."""
    with Lab("dies") as lab:
        d = lab.daemon()
        with d.connect() as c:
            job = c.submit(digits(**ENDLESS, **RESTART), CSV)
            waits = []
            for _ in range(4):
                worker = c.watch_until(job, lambda kind, p: (d.workers(job) or [0])[0])
                os.kill(worker, signal.SIGKILL)
                if len(waits) == 3:
                    break
                begin = time.monotonic()
                c.watch_until(job, lambda kind, p: kind == "state" and p["state"] == "queued" and p["reason"])
                c.watch_until(job, lambda kind, p: kind == "state" and p["state"] == "starting")
                waits.append(time.monotonic() - begin)
            end = c.wait_end(job)
            expect(end["state"] == "failed" and end["restarts"] == 3, end)
            expect(waits[2] > waits[0], waits)
            # Cancelling one that waits for its next try.
            job = c.submit(digits(**ENDLESS, **RESTART), CSV)
            worker = c.watch_until(job, lambda kind, p: (d.workers(job) or [0])[0])
            os.kill(worker, signal.SIGKILL)
            c.watch_until(job, lambda kind, p: kind == "state" and p["state"] == "queued" and "EO-" in p["reason"])
            c.call("job.cancel", {"job": job})
            expect(c.wait_end(job)["state"] == "cancelled", c.status(job))


net_lab.main(drain_and_go_on, drain_without_restart, drain_while_starting, second_signal_ends_at_once, killed_daemon,
             killed_daemon_at_once, killed_worker_fails_the_job, killed_worker_restarts_the_job,
             a_job_that_dies_again_and_again)
