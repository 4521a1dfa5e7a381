"""Speed of Tern's tokenizers beside Hugging Face `tokenizers`, one thread each, alternated in one run.

usage: tokenizers.py [--rounds N] [--seconds S] VOCABULARIES [TOKENIZER_JSONS]

VOCABULARIES    folder of NAME.gguf or NAME.gguf.xz (vocabulary-only files will do)
TOKENIZER_JSONS folder of NAME-tokenizer.json or NAME-tokenizer.json.xz; each that has a vocabulary of the same
                name is compared. gpt-2, starcoder, refact and falcon are rebuilt from the vocabulary file.

Texts: the documentation of Python's own language (prose), its library and Tern's sources (code), and with
--text any other file. Medians of MB/s over all rounds; "same" says whether both gave the same ids. `tokenizers`
is taken from this interpreter, else installed in a virtual environment in build/bench-venv.
"""
import argparse
import lzma
import os
import pathlib
import pydoc_data.topics
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BENCH = SOURCE / "build" / "bench" / "tokenizers" / "bench-tokenizers"
VENV = SOURCE / "build" / "bench-venv"
CODE_BYTES = 1_500_000


def use_reference():
    """Starts this script again in the virtual environment if `tokenizers` is not here."""
    here = str(pathlib.Path(__file__).resolve().parent)  # this file must not be taken for the library
    sys.path[:] = [p for p in sys.path if p and os.path.realpath(p) != here]
    try:
        import tokenizers
        return tokenizers
    except ImportError:
        python = VENV / "bin" / "python"
        if sys.prefix == str(VENV):
            sys.exit("tokenizers.py: pip could not install `tokenizers`")
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "tokenizers"], check=True)
        os.execv(python, [python, __file__, *sys.argv[1:]])


def prose():
    topics = pydoc_data.topics.topics
    return "\n".join(topics[name] for name in sorted(topics))


def code():
    parts, size = [], 0
    for path in [*sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py")),
                 *sorted(SOURCE.glob("*/**/*.c"))]:
        if "build" in path.relative_to(path.anchor).parts or size > CODE_BYTES:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        parts.append(text)
        size += len(text)
    return "".join(parts)


def unpacked(path, folder):
    if path.suffix != ".xz":
        return path
    out = pathlib.Path(folder) / path.stem
    out.write_bytes(lzma.open(path).read())
    return out


def named(folder, suffix):
    found = {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        name = path.name.removesuffix(".xz")
        if name.endswith(suffix):
            found[name.removesuffix(suffix)] = path
    return found


def fnv(ids):
    """As bench.c prints it."""
    value = 0xcbf29ce484222325
    for i in ids:
        for byte in i.to_bytes(4, "little"):
            value = (value ^ byte) * 0x100000001b3 % 2**64
    return "%016x" % value


def reference_round(tokenizer, text):
    start = time.perf_counter()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    between = time.perf_counter()
    tokenizer.decode(ids, skip_special_tokens=False)
    return ids, between - start, time.perf_counter() - between


def tern_round(model, seconds, paths):
    """[(hash, encoding MB/s, decoding MB/s)] per text."""
    done = subprocess.run([BENCH, model, str(seconds), *paths], check=True, capture_output=True, text=True)
    return [(f[1], float(f[2]), float(f[3])) for f in map(str.split, done.stdout.splitlines())]


def compare(name, model, tokenizer, texts, options):
    """Prints a row per text."""
    paths = [path for path, _ in texts.values()]
    tern = {t: ([], []) for t in texts}
    other = {t: ([], []) for t in texts}
    same = {}
    for _ in range(options.rounds):
        for label, row in zip(texts, tern_round(model, options.seconds, paths)):
            same[label] = row[0]
            tern[label][0].append(row[1])
            tern[label][1].append(row[2])
        for label, (_, text) in texts.items() if tokenizer else ():
            ids, encoding, decoding = reference_round(tokenizer, text)
            size = len(text.encode()) / 1e6
            other[label][0].append(size / encoding)
            other[label][1].append(size / decoding)
            if len(other[label][0]) == options.rounds:
                same[label] = "yes" if fnv(ids) == same[label] else "no"
    for label in texts:
        mine = [statistics.median(v) for v in tern[label]]
        line = f"| {name} | {label} | {mine[0]:.1f} | "
        if tokenizer:
            theirs = [statistics.median(v) for v in other[label]]
            line += f"{theirs[0]:.1f} | {mine[0] / theirs[0]:.1f} | {mine[1]:.0f} | {theirs[1]:.0f} | {same[label]} |"
        else:
            line += f"- | - | {mine[1]:.0f} | - | - |"
        print(line, flush=True)


def rebuilt(name, path, tokenizers):
    """The published pipeline over the vocabulary file's own tokens and merges; None where it is not one of these."""
    split = tokenizers.pre_tokenizers
    steps = {
        "gpt-2": [split.ByteLevel(add_prefix_space=False)],
        "starcoder": [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False)],
        "refact": [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False)],
        "falcon": [split.Punctuation(behavior="contiguous"), split.ByteLevel(add_prefix_space=False),
                   split.Digits(individual_digits=False),
                   split.Split(tokenizers.Regex("[0-9][0-9][0-9]"), behavior="isolated")],
    }.get(name)
    if steps is None:
        return None
    sys.path.insert(0, str(SOURCE / "tests" / "integration"))
    import gguf_files
    keys = gguf_files.read_keys(path.read_bytes())
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    model = tokenizers.models.BPE(vocab={t: i for i, t in reversed(list(enumerate(tokens)))},
                                  merges=[tuple(m.split(" ")) for m in keys["tokenizer.ggml.merges"]])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = split.Sequence(steps)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([t for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("vocabularies")
    parser.add_argument("jsons", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--text", action="append", default=[])
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizers = use_reference()
    jsons = named(options.jsons, "-tokenizer.json") if options.jsons else {}
    print(f"tokenizers {tokenizers.__version__}, {options.rounds} rounds\n\n"
          "| tokenizer | text | Tern MB/s | HF MB/s | ratio | Tern decoding | HF decoding | same ids |\n"
          "|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        texts = {"prose": prose(), "code": code()}
        for path in map(pathlib.Path, options.text):
            raw = lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()
            texts[path.name.split(".")[0]] = raw.decode()
        for label, text in texts.items():
            path = pathlib.Path(folder) / f"{label}.txt"
            path.write_bytes(text.encode())
            texts[label] = (path, text)
        for name, packed in named(options.vocabularies, ".gguf").items():
            path = unpacked(packed, folder)
            tokenizer = tokenizers.Tokenizer.from_file(str(unpacked(jsons[name], folder))) if name in jsons \
                else rebuilt(name, path, tokenizers)
            try:
                compare(name, path, tokenizer, texts, options)
            except subprocess.CalledProcessError as error:
                print(error.stderr.strip(), file=sys.stderr)
            if path != packed:
                path.unlink()


if __name__ == "__main__":
    main()
