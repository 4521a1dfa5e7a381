"""Tern explains itself: info, plan, ps, logs, ls, import, rm, version."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest
import xml.dom.minidom

import gguf_files
from harness import TERN, Service, kill, models, wait_until

IQ4_NL = 20  # a type of files that no kernel is for; 18 bytes for 32 weights
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warning|info|debug) \w+: .+")


def write(path, model):
    path.write_bytes(gguf_files.encode(model)[0])
    return path


class Explain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service(TERN_LOG_LEVEL="debug")
        cls.models = {name: (path, about) for name, path, about in models()}
        cls.model = cls.models["llama-q4_0"][0]

    @classmethod
    def tearDownClass(cls):
        cls.service.stop()

    def refused(self, code, *args, mentions=()):
        began = time.monotonic()
        result = self.service.tern(*args)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.err.count("\n"), 1, result)
        for text in mentions:
            self.assertIn(text, result.err)
        self.assertLess(time.monotonic() - began, 5)
        return result

    def info(self, path, *options):
        return self.service.good("info", path, "--json", *options).json()

    # ---- info ----

    def test_info_of_every_family(self):
        for name, (path, about) in self.models.items():
            with self.subTest(model=name):
                info = self.info(path)
                self.assertTrue(info["supported"])
                self.assertEqual(info["unsupported"], [])
                self.assertEqual(info["architecture"], about["arch"])
                self.assertEqual(set(info["tensors"]["types"]), set(about["types"]))
                self.assertEqual(sum(t["count"] for t in info["tensors"]["types"].values()),
                                 info["tensors"]["count"])
                needs = info["memory"]["needs"]
                self.assertEqual({n["context"] for n in needs if n["kv"] == "f16"},
                                 {c for c in (512, 2048, 8192, 32768) if c < info["context"]}
                                 | {info["context"]})
                for need in needs:
                    self.assertEqual(need["total_bytes"], need["weights_bytes"] + need["kv_bytes"]
                                     + need["buffers_bytes"])
                    self.assertEqual(need["fits"],
                                     need["total_bytes"] <= info["memory"]["available_bytes"])
                half, full = (next(n for n in needs if n["kv"] == kv and n["context"] == info["context"])
                              for kv in ("f16", "f32"))
                self.assertEqual(2 * half["kv_bytes"], full["kv_bytes"])

    def test_info_tells_what_a_load_plans(self):
        # One context of pages is what info tells; a load takes more pages where there is room.
        info = self.info(self.model)
        self.service.good("load", self.model)
        self.addCleanup(self.service.tern, "unload", self.model)
        model = next(m for m in self.service.ps()["models"] if m["model"] == str(self.model))
        need = next(n for n in info["memory"]["needs"]
                    if n["kv"] == "f16" and n["context"] == model["context"])
        self.assertEqual(info["memory"]["default_context"], model["context"])
        contexts = model["pages"] * model["page_positions"] / model["context"]
        self.assertAlmostEqual(model["planned_bytes"],
                               need["total_bytes"] + (contexts - 1) * need["kv_bytes"],
                               delta=need["kv_bytes"] * 0.2)
        self.assertTrue(self.info(self.model)["loaded"])

    def test_info_does_not_fit(self):
        service = Service(TERN_RESERVE_MIB=10**7)
        self.addCleanup(service.stop)
        info = service.good("info", self.model, "--json").json()
        self.assertTrue(info["supported"])
        self.assertFalse(any(n["fits"] for n in info["memory"]["needs"]))
        self.assertIsNone(info["memory"]["default_context"])
        self.assertIn("MiB are missing", " ".join(info["notes"]))

    def variant(self, name, keys=(), types=()):
        model = gguf_files.base()
        for key, value in dict(keys).items():
            model.keys[key] = value
        for tensor, (kind, data) in dict(types).items():
            model.tensor(tensor).kind = kind
            model.tensor(tensor).data = data
        return write(self.service.root / f"{name}.gguf", model)

    def unsupported(self):
        text = gguf_files.STRING
        return {
            "family": (self.variant("family", {"general.architecture": (text, "mamba")}), "mamba"),
            "tokenizer": (self.variant("tokenizer", {"tokenizer.ggml.model": (text, "runes")}), "runes"),
            "norm": (self.variant("norm", types={"blk.0.attn_norm.weight": (
                gguf_files.T_F16, bytes(2 * gguf_files.WIDTH))}), "F16"),
            "type": (self.variant("type", types={"blk.0.attn_q.weight": (
                IQ4_NL, bytes(gguf_files.WIDTH * gguf_files.WIDTH // 32 * 18))}), "IQ4_NL"),
        }

    def test_info_of_unsupported_files_says_why_run_refuses(self):
        for name, (path, mentions) in self.unsupported().items():
            with self.subTest(kind=name):
                info = self.info(path)
                self.assertFalse(info["supported"])
                self.assertIn(mentions, " ".join(info["unsupported"]))
                self.assertGreater(info["parameters"], 0)
                self.assertGreater(info["vocabulary"], 0)
                run = self.refused(5, "run", path, "--raw", "hi")
                self.assertIn(info["unsupported"][0], run.err)
                table = self.service.good("info", path).out.decode()
                self.assertIn("NOT SUPPORTED", table)
                self.assertIn(mentions, table)

    def test_info_metadata(self):
        path = self.variant("metadata", {"general.name": (gguf_files.STRING, "a\x1b[2Jb"),
                                         "general.long": (gguf_files.STRING, "é" * 5000)})
        self.assertNotIn("metadata", self.info(path))
        info = self.info(path, "--metadata")
        self.assertEqual(info["metadata_left_out"], 0)
        many = self.variant("many-keys", {f"k{i}": (gguf_files.U8, 1) for i in range(5000)})
        cut = self.info(many, "--metadata")
        self.assertEqual(len(cut["metadata"]), 4096)
        self.assertGreater(cut["metadata_left_out"], 900)
        keys = {entry["key"]: entry for entry in info["metadata"]}
        self.assertEqual(keys["general.architecture"]["value"], "llama")
        self.assertEqual(keys["general.name"]["value"], "a\x1b[2Jb")
        self.assertEqual(keys["general.long"]["value"], "é" * 1000)
        tokens = keys["tokenizer.ggml.tokens"]
        self.assertEqual(tokens["count"], info["vocabulary"])
        self.assertEqual(len(tokens["value"]), 8)
        self.assertNotIn(b"\x1b", self.service.good("info", path, "--metadata").out)

    # ---- plan ----

    def test_plan(self):
        table = self.service.good("plan", self.model).out.decode()
        self.assertRegex(table, r"operations +\d+ -> \d+")
        self.assertRegex(table, r"buffers +\d+ -> \d+, [\d.]+ -> [\d.]+ MiB")
        self.assertIn("stage 0", table)
        plan = self.service.good("plan", self.model, "--json").json()
        self.assertLess(plan["operations"]["after"], plan["operations"]["before"])
        self.assertLess(plan["activation_bytes"]["after"], plan["activation_bytes"]["before"])
        out = self.service.root / "plan.svg"
        self.assertEqual(self.service.good("plan", self.model, "--svg", "-o", out).out, b"")
        xml.dom.minidom.parse(str(out))
        self.assertTrue(self.service.good("plan", self.model, "--dot").out.startswith(b"digraph"))
        self.refused(2, "plan", self.model, "--dot", "--svg", mentions=["exclude"])
        self.refused(2, "plan", self.model, "-o", "/nowhere/x", mentions=["/nowhere/x"])
        self.refused(1, "plan", self.model, "-o", "/dev/full", mentions=["No space left"])

    # ---- ps ----

    def test_ps_while_generating(self):
        before = self.service.good("ps", "--json").json()["tokens"]
        prompt = self.models["llama-q4_0"][1]["cases"][-1]["tokens"]
        run = self.service.start("run", self.model, "--tokens", self.service.tokens_file(prompt), "--ids",
                                 "--ignore-eos", "-n", 400, "--ctx", len(prompt) + 500)
        drain = threading.Thread(target=run.communicate)
        drain.start()
        self.addCleanup(drain.join)
        seen = []
        wait_until(lambda: seen.append(self.service.ps()) or seen[-1]["running"] == 1
                   or run.poll() is not None, 20, "a request runs")
        drain.join(60)
        self.assertEqual(run.returncode, 0)
        after = self.service.ps()
        self.assertEqual(after["tokens"]["decode"] - before["decode"], 399)  # the first is the prompt's
        self.assertEqual(after["tokens"]["prompt"] - before["prompt"], len(prompt))
        self.assertGreater(after["tokens"]["per_s"]["decode"], 0)
        self.assertGreater(after["tokens"]["per_s_computing"]["decode"], 0)
        self.assertEqual((after["running"], after["queued"]), (0, 0))
        model = next(m for m in after["models"] if m["model"] == str(self.model))
        self.assertEqual(model["pages_used"], 0)
        self.assertGreater(model["pages_kept"], 0)
        self.assertEqual(model["pages_kept"] + model["pages_free"], model["pages"])
        self.assertGreaterEqual(model["planned_bytes"], model["resident_bytes"])
        self.assertGreater(model["resident_bytes"], 0)
        worker = next(w for w in after["workers"] if w["role"] == "cpu")
        for process in (after["coordinator"], worker):
            self.assertGreaterEqual(process["rss_bytes"], process["pss_bytes"])
            self.assertGreater(process["pss_bytes"], 1 << 20)
        self.assertGreaterEqual(after["coordinator"]["uptime_s"], 0)
        self.assertIn(b"tokens/s", self.service.good("ps").out)

    def test_ps_watch(self):
        process = self.service.start("ps", "--json", "--every", "0.1")
        rows = [json.loads(process.stdout.readline()) for _ in range(3)]
        self.assertEqual(len({row["coordinator"]["pid"] for row in rows}), 1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=10)[1], b"")
        self.assertEqual(process.returncode, 0)  # so it ends always

    def test_who_goes_on_ends_with_its_reader(self):
        """Also when there is nothing to write: ps writes next in an hour, logs perhaps never."""
        for args in (("ps", "--every", 3600), ("ps", "--json", "--every", 3600), ("ps", "--json", "--every", 0.1),
                     ("logs", "-f", "-n", 1), ("logs", "-f", "--json", "-n", 1)):
            with self.subTest(args=args):
                process = self.service.start(*args)
                self.assertTrue(process.stdout.readline())
                process.stdout.close()
                self.assertEqual(process.wait(timeout=10), 0)
                self.assertEqual(process.stderr.read(), b"")
                process.stderr.close()

    # ---- logs ----

    def test_log_lines_have_one_form_and_levels(self):
        self.service.good("load", self.model)
        self.addCleanup(self.service.tern, "unload", self.model)
        kill(self.service.worker()["pid"])
        self.service.ids(self.model, [1, 2, 3], 3)
        wait_until(lambda: "has died" in self.service.log(), 5, "the death is logged")
        lines = self.service.good("logs", "-n", 1000).out.decode().splitlines()
        for line in lines:
            self.assertRegex(line, LINE)
        entries = [json.loads(line) for line in
                   self.service.good("logs", "--json", "-n", 1000).out.decode().splitlines()]
        self.assertLessEqual({"info", "warning", "debug"}, {e["level"] for e in entries})
        self.assertIn("has died", [e for e in entries if e["level"] == "warning"][-1]["message"])
        bad = self.service.good("logs", "--level", "warning").out.decode().splitlines()
        self.assertTrue(bad)
        self.assertTrue(all(" warning " in line or " error " in line for line in bad))
        self.assertEqual(len(self.service.good("logs", "-n", 2).out.splitlines()), 2)
        self.assertEqual(self.service.good("logs", "-n", 0).out, b"")

    def test_logs_follows_over_rotation(self):
        self.service.good("ps") if self.service.log() else self.service.good("info", self.model)
        path = self.service.root / "state_home" / "tern" / "ternd.log"
        follower = self.service.start("logs", "-f", "-n", 0)
        time.sleep(0.5)
        line = "2026-01-01T00:00:00.000Z info ternd: {}\n"
        with open(path, "a") as log:
            log.write(line.format("before"))
            log.flush()
            os.rename(path, f"{path}.1")
            log.write(line.format("to the old file"))
        path.write_text(line.format("to the new\x1b file"))
        got = []
        while not got or b"new" not in got[-1]:
            got.append(follower.stdout.readline())
            self.assertTrue(got[-1])
        text = b"".join(got)
        for words in (b": before", b"to the old file", b"to the new\\x1b file"):
            self.assertEqual(text.count(words), 1, text)
        follower.send_signal(signal.SIGINT)
        self.assertEqual((follower.communicate(timeout=10)[1], follower.returncode), (b"", 0))

    def test_serve_speaks_to_the_journal(self):
        other = Service()
        self.addCleanup(other.stop)
        serve = other.start("serve", "--log-level", "debug")
        other_model = str(self.model)
        wait_until(lambda: other.tern("ps").code == 0, 10, "it serves")
        other.good("run", other_model, "--raw", "-n", 2, "hi")
        self.assertEqual(other.tern("logs").code, 1)
        other.good("stop")
        err = serve.communicate(timeout=10)[1].decode()
        self.assertEqual(serve.returncode, 0)
        for line in err.splitlines():
            self.assertRegex(line, r"^<[3467]>\w+: ")
        self.assertIn("<7>ternd: started the cpu process", err)
        self.refused(2, "serve", "--log-level", "loud", mentions=["error|warning|info|debug"])

    # ---- the cache ----

    def cache(self):
        return self.service.root / "cache_home" / "tern" / "models"

    def names(self):
        return {entry["name"] for entry in self.service.good("ls", "--json").json()}

    def test_import_list_remove(self):
        self.service.good("import", self.model, "--name", "first")
        self.assertIn("first", self.names())
        self.assertEqual(self.service.ids("first", [1, 2, 3], 3), self.service.ids(self.model, [1, 2, 3], 3))
        again = self.service.good("import", self.model, "--name", "first")
        self.assertIn(b"already", again.out)
        other = self.models["llama-wild-q4_0"][0]
        self.refused(1, "import", other, "--name", "first", mentions=["--force"])
        self.refused(1, "rm", "first", mentions=["tern unload first"])
        self.service.good("unload", "first")
        self.service.good("import", other, "--name", "first", "--force")
        self.assertEqual((self.cache() / "first.gguf").read_bytes(), other.read_bytes())
        self.assertTrue(self.model.exists())
        self.refused(3, "rm", "frist", mentions=["'first'"])
        self.refused(3, "run", "firts", "hi", mentions=["did you mean 'first'?"])
        self.service.good("rm", "first.gguf")
        self.assertNotIn("first", self.names())
        self.assertEqual([p.name for p in self.cache().iterdir() if p.name.startswith(".")], [])

    def test_import_links_or_copies(self):
        here = self.service.root / "mine.gguf"
        here.write_bytes(self.model.read_bytes())
        dead = subprocess.Popen(["true"])
        dead.wait()
        self.cache().mkdir(parents=True, exist_ok=True)
        (self.cache() / f".import-{dead.pid}.part").write_bytes(b"of an import that was killed")
        self.service.good("import", here)
        self.assertFalse((self.cache() / f".import-{dead.pid}.part").exists())
        self.addCleanup(self.service.tern, "rm", "mine")
        self.assertEqual((self.cache() / "mine.gguf").stat().st_ino, here.stat().st_ino)

    def test_import_refuses_what_is_no_model(self):
        root = self.service.root
        before = self.names()
        (root / "empty.gguf").touch()
        (root / "dangling.gguf").symlink_to(root / "nowhere")
        (root / "folder.gguf").mkdir()
        os.mkfifo(root / "fifo.gguf")
        (root / "broken.gguf").write_bytes(self.model.read_bytes()[:5000])
        for path in ("/dev/zero", "/dev/random", root / "empty.gguf", root / "dangling.gguf",
                     root / "folder.gguf", root / "fifo.gguf", "/" + "x" * 300, "no-such.gguf",
                     root / "broken.gguf"):
            with self.subTest(path=str(path)):
                self.refused(3, "import", path, "--name", "ok")
        self.refused(2, "import", "", "--name", "ok")
        for kind, (path, mentions) in self.unsupported().items():
            with self.subTest(kind=kind):
                self.refused(5, "import", path, mentions=[mentions])
        closed = root / "closed.gguf"
        closed.write_bytes(self.model.read_bytes())
        closed.chmod(0)
        if os.geteuid() != 0:
            self.refused(3, "import", closed, mentions=["Permission denied"])
        self.assertEqual(self.names(), before)

    def test_hostile_names(self):
        victim = self.service.root / "victim.gguf"
        victim.write_bytes(b"keep me")
        for name in ("", "..", ".hidden", "../victim", "a/b", "/etc/passwd", "-x", "a\nb", "a\x1b[2J",
                     "x" * 201, "x" * 300, "\udcff"):
            with self.subTest(name=name):
                self.assertEqual(self.service.tern("rm", "--", name).code, 2)
                self.assertEqual(self.service.tern("import", self.model, "--name", name).code, 2)
        self.cache().mkdir(parents=True, exist_ok=True)
        (self.cache() / "link.gguf").symlink_to(victim)
        (self.cache() / "dir.gguf").mkdir()
        self.refused(3, "rm", "dir")
        self.service.good("rm", "link")  # the link itself
        self.assertEqual(victim.read_bytes(), b"keep me")
        self.assertFalse(os.path.lexists(self.cache() / "link.gguf"))

    def test_import_onto_a_full_disk(self):
        disk = self.service.root / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a tmpfs")
        try:
            env = dict(self.service.env, XDG_CACHE_HOME=str(disk))
            result = subprocess.run([TERN, "import", str(self.model)], env=env, capture_output=True,
                                    check=False, timeout=30)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn(b"No space left", result.stderr)
            self.assertEqual(list((disk / "tern" / "models").iterdir()), [])
        finally:
            subprocess.run(["umount", disk], check=True)

    # ---- all ----

    def test_json_of_every_verb_parses(self):
        self.service.good("info", self.model)
        for args in (["ps"], ["ls"], ["info", self.model], ["plan", self.model], ["version"]):
            with self.subTest(verb=args[0]):
                self.service.good(*args, "--json").json()
        for line in self.service.good("logs", "--json").out.decode().splitlines():
            self.assertEqual(set(json.loads(line)), {"time", "level", "process", "message"})


if __name__ == "__main__":
    unittest.main()
