"""How far --precision fast and high are from unrounded activations: KL divergence and agreement of
the best token with the float64 reference logits of the real models in the golden folder.

usage: accuracy.py GOLDEN MODEL.gguf NAME      NAME: smollm2 or gemma3-270m
"""
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

TERN = pathlib.Path(__file__).resolve().parents[1] / "build" / "cmd" / "tern" / "tern"


def rows(data, width):
    values = array.array("f")
    values.frombytes(data)
    return [values[i:i + width] for i in range(0, len(values), width)]


def log_softmax(row):
    top = max(row)
    total = math.log(math.fsum(math.exp(x - top) for x in row)) + top
    return [x - total for x in row]


def divergence(reference, other):
    return math.fsum(math.exp(p) * (p - q)
                     for p, q in zip(log_softmax(reference), log_softmax(other)))


def logits(model, tokens, *options):
    with tempfile.TemporaryDirectory() as folder:
        file, out = pathlib.Path(folder, "tokens.json"), pathlib.Path(folder, "logits")
        file.write_text(json.dumps(tokens))
        subprocess.run([TERN, "logits", model, "--tokens", file, "-o", out, *options], check=True)
        return out.read_bytes()


def main():
    golden, model, name = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    cases = json.loads((golden / "real" / f"{name}.json").read_text())["cases"]
    print("| model | activations | keys and values | rows | mean KL | largest KL | same best token |")
    print("|---|---|---|---|---|---|---|")
    for precision in ("fast", "high"):
        for kv in ("f16", "f32"):
            found, same = [], 0
            for case in cases:
                data = logits(model, case["tokens"], "--precision", precision, "--kv", kv)
                width = len(data) // 4 // len(case["tokens"])
                want = rows((golden / "real" / case["logits_f32"]).read_bytes(), width)
                got = rows(data, width)[case["rows_from"]:]
                found += [divergence(w, g) for w, g in zip(want, got)]
                same += sum(max(range(width), key=w.__getitem__) == max(range(width),
                                                                         key=g.__getitem__)
                            for w, g in zip(want, got))
            print(f"| {name} | {precision} | {kv} | {len(found)} | "
                  f"{sum(found) / len(found):.1e} | {max(found):.1e} | {same} of {len(found)} |")


if __name__ == "__main__":
    main()
