"""Real processes for the integration tests: a service of its own in temporary folders, the command
line tool, and the golden files. Standard library only."""
import array
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TERN_BUILD", SOURCE / "build"))
TERN = BUILD / "cmd" / "tern" / "tern"
FAULTY = BUILD / "workers" / "compute-cpu" / "faulty" / "tern-cpu"  # obeys TERN_INJECT, TERN_RUN_TWICE
GOLDEN = pathlib.Path(os.environ.get("TERN_GOLDEN", SOURCE / "tests" / "golden")).resolve()
# Real models that scripts/fetch-models has brought; absent ones are skipped, by name.
REAL = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tern" / "models"
FULL = "TERN_GOLDEN" in os.environ  # all of the golden folder, not the subset in the repository
SANITIZED = b"libasan" in TERN.read_bytes()
# Ends whom it meets, at any moment. A sanitizer catches SIGSEGV, and its handler waits for ever if the lock that it needs
# is held by the code it interrupted.
CRASH = signal.SIGABRT if SANITIZED else signal.SIGSEGV

FAMILIES = {"llama", "qwen2", "qwen3", "gemma3"}
TYPES = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out[:2000]!r}\nstderr: {self.err[:2000]!r}"


class Service:
    """A daemon's world: its own XDG folders. Commands run with them; stop() ends everything. `faulty`: its
    CPU worker is the one with fault injection."""

    def __init__(self, faulty=False, **environment):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tern-test-"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "TERN_"))}
        for name in ("RUNTIME_DIR", "CACHE_HOME", "STATE_HOME", "CONFIG_HOME"):
            folder = self.root / name.lower()
            folder.mkdir(mode=0o700)
            self.env["XDG_" + name] = str(folder)
        self.env["TERN_RESERVE_MIB"] = "256"
        self.env.update({k: str(v) for k, v in environment.items()})
        self.program = self.copy_programs() if faulty else TERN

    def copy_programs(self):
        """The programs as neighbours of each other, with the faulty worker; path of the command."""
        folder = self.root / "programs"
        folder.mkdir()
        for program in (BUILD / "cmd" / "ternd", BUILD / "cmd" / "tern-loader", FAULTY, TERN):
            shutil.copy(program, folder)
        return folder / "tern"

    def start(self, *args, stdin=subprocess.DEVNULL, **kwargs):
        """The command as a running process with pipes."""
        return subprocess.Popen([self.program, *map(str, args)], env=self.env, stdin=stdin,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)

    def tern(self, *args, stdin=b"", timeout=40, **kwargs):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = subprocess.run([self.program, *map(str, args)], env=self.env, input=stdin, timeout=timeout,
                              capture_output=True, **kwargs)
        return Result(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def good(self, *args, **kwargs):
        result = self.tern(*args, **kwargs)
        assert result.code == 0, f"tern {' '.join(map(str, args))}: {result}"
        return result

    def tokens_file(self, tokens):
        path = self.root / "tokens.json"
        path.write_text(json.dumps(tokens))
        return path

    def ids(self, model, tokens, n, *options, **kwargs):
        """Greedy ids after these tokens."""
        return self.good("run", model, "--tokens", self.tokens_file(tokens), "--ids", "-n", n,
                         "--ignore-eos", *options, **kwargs).json()

    def logits(self, model, tokens, *options, **kwargs):
        """All logits as bytes."""
        out = self.root / "logits.f32"
        out.unlink(missing_ok=True)
        self.good("logits", model, "--tokens", self.tokens_file(tokens), "-o", out, *options, **kwargs)
        return out.read_bytes()

    def ps(self):
        return self.good("ps", "--json").json()

    def worker(self, role="cpu"):
        return next(w for w in self.ps()["workers"] if w["role"] == role)

    def coordinator_pid(self):
        return self.ps()["coordinator"]["pid"]

    def log(self):
        path = self.root / "state_home" / "tern" / "ternd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.tern("stop", timeout=30)
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class ServiceTest(unittest.TestCase):
    """Tests of one service, which they share."""

    @classmethod
    def setUpClass(cls):
        cls.service = Service()
        cls.addClassCleanup(cls.service.stop)


def models(full=FULL):
    """(name, path of the GGUF file, description) of every golden model that Tern supports."""
    found = []
    for path in sorted((GOLDEN / "models").glob("*.json")):
        about = json.loads(path.read_text())
        if isinstance(about, dict) and about.get("arch") in FAMILIES and set(about["types"]) <= TYPES \
                and not about["family"].startswith("mixtral") \
                and not path.stem.startswith("mixtral"):
            found.append((path.stem, path.with_suffix(".gguf"), about))
    assert found, f"no golden models in {GOLDEN}"
    return found


def representative():
    """A model of each family, the ones with most weight types in them."""
    best = {}
    for name, path, about in models():
        key = about["arch"]
        if key not in best or len(about["types"]) > len(best[key][2]["types"]):
            best[key] = (name, path, about)
    return list(best.values())


def prompts(about):
    """Three different prompts for a model, whatever cases its description holds."""
    longest = about["cases"][-1]["tokens"]
    return [longest, longest[:len(longest) // 2], longest[:5]]


def floats(data):
    values = array.array("f")
    values.frombytes(data)
    return values


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie is no longer alive for us.
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)
