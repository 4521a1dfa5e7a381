"""Makes the subset of the golden files that the repository carries, from the whole folder: every
family, every weight type and every tokenizer rule at least once, one case a model.

usage: make_subset.py GOLDEN
"""
import json
import pathlib
import shutil
import sys

FAMILIES = ("llama", "qwen2", "qwen3", "gemma3")
TYPES = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}


def choose(golden):
    """The smallest models, in order, that add a (family) or a weight type not covered yet."""
    models = []
    for path in (golden / "models").glob("*.json"):
        about = json.loads(path.read_text())
        if isinstance(about, dict) and about.get("arch") in FAMILIES and set(about["types"]) <= TYPES \
                and not path.stem.startswith("mixtral"):
            models.append((path.with_suffix(".gguf").stat().st_size, path, about))
    covered, chosen = set(), []
    for _, path, about in sorted(models, key=lambda m: (m[0], m[1])):
        adds = {("type", t) for t in about["types"]} | {("family", about["arch"])}
        if not adds <= covered:
            covered |= adds
            chosen.append((path, about))
    return chosen


def copy_real(golden):
    """Two cases of the demo model, which scripts/demo brings along."""
    out = pathlib.Path(__file__).parent / "real"
    out.mkdir(exist_ok=True)
    about = json.loads((golden / "real" / "smollm2.json").read_text())
    about["cases"] = [c for c in about["cases"] if c["name"] in ("plain", "chat")]
    for case in about["cases"]:
        shutil.copyfile(golden / "real" / case["logits_f32"], out / case["logits_f32"])
    (out / "smollm2.json").write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n")


def main():
    golden = pathlib.Path(sys.argv[1])
    out = pathlib.Path(__file__).parent / "models"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    for path, about in choose(golden):
        about["cases"] = about["cases"][1:2]
        case = about["cases"][0]
        shutil.copyfile(path.with_suffix(".gguf"), out / (path.stem + ".gguf"))
        shutil.copyfile(path.parent / case["logits_f32"], out / case["logits_f32"])
        (out / path.name).write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n")
    copy_real(golden)


if __name__ == "__main__":
    main()
