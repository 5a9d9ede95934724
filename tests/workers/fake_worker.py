"""A worker that trains nothing: it behaves, or misbehaves, as the variable FAKE_WORKER says.

It writes the files of a real one. The behaviour is `name` or `name:argument`, or several separated by blanks
as `trial-id-part=behaviour`, where the first part found in the trial's id decides. Behaviours of the ranks of
a team are separated by ` / `.
"""

import csv
import hashlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from rldyno_rig import schema
from rldyno_rig.team.names import LOST, RANK_VARIABLE, home

RANK = int(os.environ.get(RANK_VARIABLE, "0"))
SPAWN_NS = int(os.environ[schema.SPAWN_VARIABLE])


class Records:
    def __init__(self, directory):
        self.directory = directory
        self.step = 0
        self.startup = {
            "interpreter": since_spawn(),
            "import": 1_000_000,
            "build": 1_000_000,
            "first_call": 0,
            "warm": 0,
        }
        (directory / schema.FACTS_FILE).write_text(json.dumps({"python": sys.version, "versions": {}}))
        self.progress = self.open(schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS)
        self.episodes = self.open(schema.EPISODES_FILE, schema.EPISODE_COLUMNS)
        self.train_start = since_spawn()
        self.pretended_ns = 0

    def open(self, name, columns):
        stream = (self.directory / name).open("w", newline="")
        stream.write(",".join(columns) + "\n")
        stream.flush()
        return stream

    def tick(self, steps=100):
        self.step += steps
        row = [since_spawn(), self.step, self.step // 10, self.step // 4, 20.0, 0.5]
        csv.writer(self.progress, lineterminator="\n").writerow(row + [1] * len(schema.PHASES) + [""])
        csv.writer(self.episodes, lineterminator="\n").writerow(
            [self.step // 10, 0, self.step, since_spawn(), 20.0, 10, 1]
        )
        self.progress.flush()
        self.episodes.flush()

    def result(self, reason="steps", message="the budget was reached"):
        train_ns = self.pretended_ns or since_spawn() - self.train_start
        result = {
            "reason": reason,
            "message": message,
            "steps": self.step,
            "episodes": self.step // 10,
            "updates": self.step // 4,
            "startup_ns": self.startup,
            "train_start_ns": self.train_start,
            "train_ns": train_ns,
            "phases_ns": {phase: train_ns if phase == "other" else 0 for phase in schema.PHASES},
            "threshold": None,
            "final_return": 20.0,
        }
        (self.directory / schema.RESULT_FILE).write_text(json.dumps(result))


def since_spawn():
    return time.monotonic_ns() - SPAWN_NS


def burn(seconds):
    """Use this much CPU time of this process."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def good(records, seconds="0.2"):
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        records.tick()
        time.sleep(min(0.1, float(seconds)))
    records.tick()
    records.result()


def claims(records, rate="1000"):
    """Says that it ran at this many steps per second, within a few percent that depend on the trial alone."""
    records.tick()
    spread = random.Random(records.directory.name).gauss(0, 0.05)
    records.pretended_ns = int(records.step / float(rate) * (1 + spread) * 1e9)
    records.result()


def dies(records, code="3"):
    records.tick()
    print("about to die", flush=True)
    if code == "3":
        raise SystemExit(int(code))
    raise RuntimeError("the matrix is not a matrix")


def killed(records):
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(records):
    os.kill(os.getpid(), signal.SIGSEGV)


def raises(records, message="the matrix is not a matrix"):
    """As the rig does it: with a result that says so."""
    records.tick()
    (records.directory / schema.RESULT_FILE).write_text(
        json.dumps({"reason": "crashed", "message": f"ValueError: {message}"})
    )
    os._exit(1)


def loses(records):
    """Ends because another worker did, once that one has said why."""
    others = records.directory / "workers"
    while not any(others.glob("*/result.json")):
        time.sleep(0.01)
    gives_up(records)


def gives_up(records):
    """Another worker does not answer."""
    message = f"TeamError: worker {RANK} {LOST}: the connection was closed"
    (records.directory / schema.RESULT_FILE).write_text(json.dumps({"reason": "crashed", "message": message}))
    os._exit(1)


def exhausts(records):
    """More memory than it may have."""
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    blocks = []
    while True:
        blocks.append(bytearray(2**26))


def halts(records):
    records.tick()
    os.kill(os.getpid(), signal.SIGSTOP)


def binds(records):
    """Wants a port that somebody has."""
    with socket.socket() as taken, socket.socket() as second:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        try:
            second.bind(("127.0.0.1", port))
        except OSError as error:
            raises(records, f"port {port}: {error.strerror}")


def trains(directory):
    """The real training loop."""
    from rldyno_rig import training

    raise SystemExit(training.train(directory, time.perf_counter_ns()))


def trains_unevenly(directory):
    import uneven

    raise SystemExit(uneven.train(directory, time.perf_counter_ns()))


def hangs(records):
    records.tick()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGABRT])
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)


def leaves_orphan(records, seconds="600"):
    """A process in a session of its own, whose parent has ended before the probe can see it."""
    stray = "import os, time; os.setsid(); open('orphan.pid', 'w').write(str(os.getpid())); time.sleep(600)"
    between = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {stray!r}])"
    subprocess.run([sys.executable, "-c", between], check=True)
    while not (records.directory / "orphan.pid").exists():
        time.sleep(0.01)
    good(records, seconds)


def dozes(records):
    records.tick()
    time.sleep(600)


def garbage_output(records):
    sys.stdout.buffer.write(bytes(range(256)) * 200 + b"\x1b[2J\xff\xfe")
    sys.stdout.flush()
    good(records)


def garbage_then_dies(records):
    sys.stdout.buffer.write(b"\x1b[2J\xff\xfe\x00 boom")
    sys.stdout.flush()
    os._exit(9)


def floods(records):
    line = b"x" * 65536
    while True:
        sys.stdout.buffer.write(line)


def garbage_result(records):
    good(records)
    (records.directory / schema.RESULT_FILE).write_bytes(b"\x00\x01{{{")


def wrong_result(records):
    (records.directory / schema.RESULT_FILE).write_text('{"reason": "steps", "steps": "many"}')


def no_result(records):
    records.tick()


def nan(records):
    records.tick()
    records.result("nan", "the loss became NaN at update 25")


def burns(records, seconds="1"):
    burn(float(seconds))
    good(records, "0.1")


def shares(records, share="0.3"):
    """Uses this share of a core for three seconds, in slots of 50 ms."""
    slot, begin = 0.05, time.monotonic()
    for number in range(1, 61):
        burn(slot * float(share))
        time.sleep(max(0.0, begin + number * slot - time.monotonic()))
    records.tick()
    records.result()


def leaks(records, mebibytes_per_s="20", until="1"):
    """For five seconds memory grows by this much a second, by the clock; or only until a share of them."""
    begin, held, blocks = time.monotonic(), 0, []
    while time.monotonic() - begin < 5.0:
        elapsed = min(time.monotonic() - begin, 5.0 * float(until))
        due = int(float(mebibytes_per_s) * 2**20 * elapsed) - held
        blocks.append(b"x" * due)
        held += due
        time.sleep(0.01)
    records.tick()
    records.result()


def fills(records, mebibytes_per_s="20"):
    leaks(records, mebibytes_per_s, until="0.7")


def holds(records, mebibytes="100"):
    good(records, "1")  # so long that a probe which waits for its CPU still sees the time before
    block = bytearray(int(mebibytes) * 2**20)
    for page in range(0, len(block), 4096):
        block[page] = 1
    good(records, "2.6")
    del block
    good(records, "0.2")


def spawns(records, seconds="0.5"):
    """Two children that burn this long each, sleep a while and are waited for."""
    source = (
        f"import time\nend = time.process_time() + {seconds}\n"
        "while time.process_time() < end: pass\ntime.sleep(0.8)"
    )
    children = [subprocess.Popen([sys.executable, "-I", "-S", "-c", source]) for _ in range(2)]
    for child in children:
        child.wait()
        records.tick()
    good(records)


def shelters(records, mebibytes="100"):
    """Two children that hold this much each."""
    source = f"import time\nblock = b'x' * ({mebibytes} * 2**20)\ntime.sleep(2.6)"
    children = [subprocess.Popen([sys.executable, "-I", "-S", "-c", source]) for _ in range(2)]
    for child in children:
        child.wait()
    good(records, "0.1")


def relays(records, children="12"):
    """Children that come and go, each after the one before; notes what the kernel says that all used."""
    source = "import time\nwhile time.process_time() < 0.15: pass"
    for _ in range(int(children)):
        subprocess.run([sys.executable, "-I", "-S", "-c", source], check=True)
        records.tick()
    records.result()
    (records.directory / "used.json").write_text(json.dumps(sum(os.times()[:4])))


def naps(records, count="1000"):
    """Gives up its CPU this often."""
    for _ in range(int(count)):
        time.sleep(0.001)
    good(records, "0.1")


def crowds(records, threads="4"):
    """Threads that all want to run: hashing needs no interpreter lock."""
    block = bytes(4 * 2**20)
    end = time.monotonic() + 3.2

    def work():
        while time.monotonic() < end:
            hashlib.sha256(block)

    crowd = [threading.Thread(target=work) for _ in range(int(threads))]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    good(records, "0.1")


def leaves_child(records):
    """A child in a session of its own, as a data-loader that escapes its group."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (records.directory / "child.pid").write_text(str(child.pid))
    good(records, "1.2")


def torn(records):
    good(records)
    records.progress.write("123,4")
    records.progress.flush()


def sleeps(directory):
    """The real training loop, with an environment and a backend that take known times."""
    sleepy_modules = str(Path(__file__).parent / "sleepy")
    sys.path.insert(0, sleepy_modules)
    import known_time

    time.perf_counter_ns = known_time.now  # before the modules that take it are loaded
    import rldyno_rig.backends
    from rldyno_rig import envs, training

    rldyno_rig.backends.__path__.insert(0, sleepy_modules)

    def sleepy(environment):
        class Sleepy(environment):
            def step(self, actions):
                known_time.wait("environment")
                return super().step(actions)

        return Sleepy

    envs.OneEnvironment, envs.ScalarEnvironment = map(sleepy, (envs.OneEnvironment, envs.ScalarEnvironment))
    code = training.train(directory, time.perf_counter_ns())
    waits = [(part, begin - SPAWN_NS, took) for part, begin, took in known_time.WAITS]
    (directory / "waits.json").write_text(json.dumps(waits))
    raise SystemExit(code)


def main():
    directory = Path(sys.argv[-1])
    behaviour = os.environ.get("FAKE_WORKER", "good")
    if "=" in behaviour:
        pairs = [part.split("=", 1) for part in behaviour.split()]
        behaviour = next((what for part, what in pairs if part in directory.name), "good")
    ranks = behaviour.split(" / ")
    name, _, argument = ranks[min(RANK, len(ranks) - 1)].partition(":")
    if name in ("sleeps", "trains", "trains_unevenly"):
        globals()[name](directory)
    globals()[name](Records(home(directory, RANK)), *([argument] if argument else []))


if __name__ == "__main__":
    main()
