"""One daemon, `everyo-submit run` from end to end: results, JSON lines, files, options, exit codes."""
import hashlib
import json
import os
import signal

import lab_path  # noqa: F401
import net_lab
from net_lab import EXAMPLES, Lab, digits, expect

DIGITS = os.path.join(EXAMPLES, "digits.yaml")
RESULT_KEYS = {"event", "schema", "job_id", "state", "metrics", "parameters_sha256", "ranks", "steps", "seconds",
               "world_size", "error"}
OUTPUT = {"model.safetensors", "manifest.json", "history.csv", "run.json"}


def write_job(lab, text, name="job.yaml"):
    with open(lab.path("digits.csv"), "wb") as f:
        f.write(net_lab.example("digits.csv"))
    return lab.write(name, text)


def digits_end_to_end():
    with Lab("run") as lab:
        d = lab.daemon()
        r = lab.submit("run", DIGITS, "-H", d.endpoint, "--json", "--output", lab.path("out"))
        expect(r.code == 0, r)
        lines = r.lines()
        expect(lines[0]["event"] in ("submitted", "upload"), lines[0])
        submitted = [x for x in lines if x["event"] == "submitted"][0]
        expect(submitted["hosts"] == [d.endpoint] and submitted["schema"] == 1, submitted)
        result = r.result()
        expect(set(result) == RESULT_KEYS, sorted(result))
        expect(result["schema"] == 1 and result["state"] == "succeeded" and result["error"] is None, result)
        expect(result["job_id"] == submitted["job_id"] and len(result["job_id"]) == 32, result)
        expect(set(result["metrics"]) == {"loss", "accuracy", "val_loss", "val_accuracy"}, result["metrics"])
        expect(result["metrics"]["val_accuracy"] >= 0.96, result["metrics"])
        expect(result["steps"] == 25 * 45 and result["world_size"] == 1 and result["seconds"] > 0, result)
        expect(result["ranks"] == [{"host": d.endpoint, "rank": 0, "parameters_sha256": result["parameters_sha256"]}],
               result)
        progress = [x for x in lines if x["event"] == "progress"]
        expect(sum(p["epoch_end"] for p in progress) >= 1 and progress[-1]["step"] == 1125, progress[-1])
        expect([p["step"] for p in progress] == sorted(p["step"] for p in progress), "steps go forward")
        log = "".join(x["text"] for x in lines if x["event"] == "log")
        expect("succeeded after 1125 steps" in log and log.endswith("\n"), log)
        check_output(lab.path("out"), result)
        # The slot is free and no process is left of the job.
        expect(d.workers() == [], net_lab.processes_of(d.state_dir))


def check_output(folder, result):
    expect(set(os.listdir(folder)) == OUTPUT, os.listdir(folder))
    with open(os.path.join(folder, "manifest.json")) as f:
        manifest = json.load(f)
    listed = {e["name"]: e for e in manifest["files"]}
    for name in listed:
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        expect(hashlib.sha256(data).hexdigest() == listed[name]["sha256"], name)
    expect("model.safetensors" in listed, manifest)
    with open(os.path.join(folder, "history.csv")) as f:
        rows = f.read().splitlines()
    expect(rows[0].startswith("epoch,step,lr,") and len(rows) == 26, rows[:2])
    with open(os.path.join(folder, "run.json")) as f:
        run = json.load(f)
    expect(run["parameters_sha256"] == result["parameters_sha256"], run)
    expect(net_lab.parameters_sha256(os.path.join(folder, "model.safetensors")) == result["parameters_sha256"],
           "the hash is that of the file's tensors")


def human_output_and_second_upload():
    with Lab("human") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(epochs=2))
        r = lab.submit(job, "-H", d.endpoint)  # `run` may be left out
        expect(r.code == 0 and "succeeded" in r.out, r)
        expect("epoch 2/2" in r.err and "\r" not in r.err, r)
        # The data is here now: nothing travels again.
        r = lab.submit("run", job, "-H", d.endpoint, "--json")
        upload = [x for x in r.lines() if x["event"] == "upload"]
        expect(r.code == 0 and all(x["sent"] == 0 for x in upload), r)
        r = lab.submit("run", job, "-H", d.endpoint, "--quiet")
        expect(r.code == 0 and r.err == "", r)


def same_seed_same_bits():
    with Lab("bits") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(epochs=2))
        runs = [lab.submit("run", job, "-H", d.endpoint, "--json", *extra).result()["parameters_sha256"]
                for extra in ((), (), ("--set", "train.seed=1"))]
        expect(runs[0] == runs[1] and runs[0] != runs[2], runs)


def set_changes_the_job():
    with Lab("set") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(epochs=50))
        r = lab.submit("run", job, "-H", d.endpoint, "--json", "--set", "train.epochs=1", "--set", "name=other",
                       "--set", "optimizer.adam.lr=0.001")
        expect(r.code == 0 and r.result()["steps"] == 45, r)
        status = json.loads(lab.submit("status", r.result()["job_id"], "-H", d.endpoint, "--json").out)
        expect(status["name"] == "other", status)
        r = lab.submit("run", job, "-H", d.endpoint, "--set", "train.epoch=1")
        expect(r.code == 65 and "epochs" in r.err, r)


def validate_starts_nothing():
    with Lab("validate") as lab:
        d = lab.daemon()
        job = write_job(lab, digits())
        r = lab.submit("run", job, "-H", d.endpoint, "--validate")
        expect(r.code == 0 and "valid" in r.out, r)
        expect(json.loads(lab.submit("ls", "-H", d.endpoint, "--json").out)["jobs"] == [], "no job")
        os.unlink(lab.path("digits.csv"))
        r = lab.submit("run", job, "-H", d.endpoint, "--validate")
        expect(r.code == 66 and "digits.csv" in r.err, r)


def detach_and_parsable():
    with Lab("detach") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(epochs=2))
        r = lab.submit("run", job, "-H", d.endpoint, "--detach", "--parsable")
        expect(r.code == 0 and len(r.out) == 33 and r.out.endswith("\n"), r)
        r = lab.submit("wait", r.out.strip(), "-H", d.endpoint, "--json")
        expect(r.code == 0 and r.result()["state"] == "succeeded", r)
        r = lab.submit("run", job, "-H", d.endpoint, "--detach", "--json")
        expect(r.code == 0 and r.lines()[-1]["event"] == "submitted", r)
        lab.submit("wait", r.lines()[-1]["job_id"], "-H", d.endpoint)


def local_without_a_daemon():
    with Lab("local") as lab:
        job = write_job(lab, digits(epochs=2))
        r = lab.submit("run", job, "--local", "--json", "--output", lab.path("out"), cwd=lab.dir)
        expect(r.code == 0 and r.result()["state"] == "succeeded", r)
        expect(set(os.listdir(lab.path("out"))) == OUTPUT, os.listdir(lab.path("out")))
        r = lab.submit("run", job, "--local", "--detach")
        expect(r.code == 64, r)
        r = lab.submit("run", job, "--local", "-H", "127.0.0.1:1")
        expect(r.code == 64, r)


def exit_codes():
    with Lab("codes") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(epochs=1))
        at = ("-H", d.endpoint)
        rows = [
            (64, ("run",), "takes"),
            (64, ("run", job, "--detatch"), "--detach"),
            (64, ("runn", job), "run"),
            (64, ("run", job, "-H", "bad host"), ""),
            (65, ("run", write_job(lab, digits() + "optimiser: 1\n", "a.yaml")) + at, "optimizer"),
            (65, ("run", write_job(lab, digits().replace("out: 10", "out: 5", 1), "b.yaml")) + at, "EO-"),
            (65, ("run", write_job(lab, "model: [", "c.yaml")) + at, "c.yaml"),
            (66, ("run", lab.path("absent.yaml")) + at, "absent.yaml"),
            (66, ("run", write_job(lab, digits().replace("digits.csv", "absent.csv"), "d.yaml")) + at, "absent.csv"),
            (66, ("status", "0123456789") + at, "no job"),
            (66, ("run", job, "--resume", "feed") + at, "no job"),
            (69, ("run", job, "-H", "127.0.0.1:1"), "127.0.0.1:1"),
            (69, ("ls", "-H", "127.0.0.1:1"), "127.0.0.1:1"),
        ]
        for code, args, part in rows:
            r = lab.submit(*args)
            expect(r.code == code, "wanted", code, "for", args, r)
            expect(part in r.err, "wanted", repr(part), "for", args, r)
            expect("EO-" in r.err or code == 64, r)
        expect(lab.submit("--help").code == 0 and lab.submit("run", "--help").code == 0, "help")
        # The position of what is wrong.
        r = lab.submit("run", write_job(lab, digits() + "optimiser: 1\n", "a.yaml"), *at)
        expect("a.yaml:%d:1" % (len(digits().splitlines()) + 1) in r.err, r)


def interrupted_by_the_user():
    with Lab("sigint") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(**net_lab.ENDLESS))
        p = lab.popen("everyo-submit", "run", job, "-H", d.endpoint, "--json")
        first = json.loads(p.stdout.readline())
        while first["event"] != "submitted":
            first = json.loads(p.stdout.readline())
        with d.connect() as c:
            c.wait_step(first["job_id"], 10)
            p.send_signal(signal.SIGINT)
            r = lab.finish(p)
            expect(r.code == 130, r)
            end = c.wait_end(first["job_id"])
        expect(end["state"] == "cancelled" and end["steps"] > 0, end)
        files = os.listdir(os.path.join(d.state_dir, "jobs", first["job_id"], "output"))
        expect("checkpoints" in files, files)


def a_lost_connection_does_not_cancel():
    with Lab("lost") as lab:
        d = lab.daemon()
        job = write_job(lab, digits(epochs=40))
        p = lab.popen("everyo-submit", "run", job, "-H", d.endpoint, "--json")
        first = json.loads(p.stdout.readline())
        while first["event"] != "submitted":
            first = json.loads(p.stdout.readline())
        p.kill()
        p.communicate()
        with d.connect() as c:
            expect(c.wait_end(first["job_id"])["state"] == "succeeded", "the job goes on")


net_lab.main(digits_end_to_end, human_output_and_second_upload, same_seed_same_bits, set_changes_the_job,
             validate_starts_nothing, detach_and_parsable, local_without_a_daemon, exit_codes,
             interrupted_by_the_user, a_lost_connection_does_not_cancel)
