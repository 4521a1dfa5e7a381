"""Hostile model files, and what a right program says of each.

files() yields BadFile(name, data, part, status, text): `part` is who must refuse it ("file": the
parser; "weights": the loader while it reads the tensors; "model": the coordinator, from hyperparameters
and vocabulary), `status` the allowed exit codes, `text` what the message must contain.

    python3 bad_files.py FOLDER     writes all of them, and FOLDER/index: one line
                                    name <TAB> part <TAB> statuses joined by commas <TAB> text

The B numbers are those of public fault reports on programs of this kind.
"""

import os
import struct
import sys

import bad_models
import gguf_files as g
from bad_models import UNSUPPORTED, BadFile, refused


def header(tensors, keys, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def tensor_record(sizes, kind=0, offset=0, name="t"):
    return (g.pack_string(name) + struct.pack("<I", len(sizes)) +
            b"".join(struct.pack("<Q", s) for s in sizes) + struct.pack("<IQ", kind, offset))


def one_tensor(sizes, kind=0, offset=0, name="t", data=b""):
    body = header(1, 0) + tensor_record(sizes, kind, offset, name)
    return body + bytes(-len(body) % 32) + data


def one_key(name, kind, value):
    return header(0, 1) + g.pack_string(name) + struct.pack("<I", kind) + value


def truncations(data, places):
    """B01, B12: cuts; the exhaustive list of prefixes is a unit test's."""
    end = places["directory.end"]
    last = "tensor 'output.weight'"
    yield refused("b01-minus-1", data[:-1], last)
    yield refused("b01-minus-4096", data[:-4096], last)
    yield refused("b01-after-directory", data[:end], "tensor 'token_embd.weight'")
    at = places["output.weight.offset"]
    offset = struct.unpack_from("<Q", data, at)[0]
    yield refused("b01-end-plus-32", g.patch(data, at, struct.pack("<Q", offset + 32)), last)
    yield refused("b01-offset-wraps",
                  g.patch(data, at, struct.pack("<Q", 2**64 - 32)), last)
    yield refused("b12-empty", b"", "empty")
    yield refused("b12-magic-only", b"GGUF", "version")
    for cut in (1, 7, 8, 15, 16, 23, 24, 40, places["tokenizer.ggml.tokens.value"] + 13,
                places["tokenizer.ggml.scores.value"] + 100, places["output.weight"] + 3, end - 1):
        yield refused("b12-prefix-%d" % cut, data[:cut], "")


def versions(data):
    """B12: versions and magics."""
    def version(n):
        return g.patch(data, 4, struct.pack("<I", n))
    yield refused("b12-version-0", version(0), "version 0")
    yield refused("b12-version-1", version(1), "version 1", UNSUPPORTED)
    yield refused("b12-version-4", version(4), "version 4", UNSUPPORTED)
    yield refused("b12-version-2e31", version(2**31), "version 2147483648")
    yield refused("b12-big-endian", version(3 << 24), "big-endian", UNSUPPORTED)
    yield refused("b12-big-endian-2", version(2 << 24), "big-endian", UNSUPPORTED)
    for magic in (b"GGML", b"gguf", b"FUGG", b"\0\0\0\0"):
        yield refused("b12-magic-" + magic.hex(), magic + data[4:], "magic")


def sizes():
    """B03, B05: dimensions."""
    yield refused("b03-1-0", one_tensor([1, 0]), "tensor 't': dimension 1 is 0")
    yield refused("b03-0", one_tensor([0]), "dimension 0 is 0")
    yield refused("b03-1-0-1-1", one_tensor([1, 0, 1, 1]), "dimension 1 is 0")
    yield refused("dimensions-0", one_tensor([]) + bytes(32), "number of dimensions 0")
    yield refused("dimensions-5", one_tensor([1] * 5, data=bytes(4)), "number of dimensions 5")
    yield refused("dimensions-2e32", header(1, 0) + g.pack_string("t") + b"\xff" * 4 + bytes(64),
                  "number of dimensions 4294967295")
    yield refused("b05-q4_0", one_tensor([5124095576030431008], g.T_Q4_0, data=bytes(64)), "'t'")
    # In every type: so many columns that their product with a block's bytes wraps to almost nothing.
    for name, (kind, size, block, _) in bad_models.SCALED.items():
        columns = (2**64 // (size * block) + 1) * block
        yield refused("b05-wraps-" + name, one_tensor([columns], kind, data=bytes(512)), "'t': %d bytes" %
                      (columns // block * size))
        yield refused("b05-most-" + name, one_tensor([2**64 - block], kind, data=bytes(512)), "'t'")
        yield refused("b05-rows-" + name, one_tensor([block, 2**59], kind, data=bytes(512)), "'t'")
    yield refused("b05-f32-wraps", one_tensor([2**62], g.T_F32, data=bytes(64)), "'t'")
    yield refused("b05-product-wraps", one_tensor([2**32, 2**32, 2**32], data=bytes(64)),
                  "more bytes than any file")
    # Almost 2^64 bytes: one more step up to the alignment wraps to nothing.
    yield refused("padding-wraps", one_tensor([4, 2**30 - 1, 2**30 + 1], data=bytes(64)),
                  "'t': 18446744073709551600 bytes")
    yield refused("columns-33-q8_0", one_tensor([33], g.T_Q8_0, data=bytes(128)),
                  "33 columns are no multiple")


def types():
    yield refused("type-4", one_tensor([32], 4, data=bytes(128)), "tensor type 4 is unknown",
                  UNSUPPORTED)
    yield refused("type-200", one_tensor([32], 200, data=bytes(128)), "tensor type 200 is unknown",
                  UNSUPPORTED)
    yield refused("type-2e32", one_tensor([32], 2**32 - 1, data=bytes(128)),
                  "tensor type 4294967295 is unknown", UNSUPPORTED)
    yield refused("value-type-13", one_key("k", 13, bytes(8)), "value type 13")
    yield refused("value-type-2e32", one_key("k", 2**32 - 1, bytes(8)), "value type 4294967295")
    yield refused("bool-2", one_key("k", g.BOOL, b"\x02"), "boolean 0 is 2")


def alignments():
    """B06."""
    for n in (0, 3, 24):
        yield refused("b06-alignment-%d" % n,
                      one_key("general.alignment", g.U32, struct.pack("<I", n)),
                      "'general.alignment' is %d" % n)
    yield refused("b06-alignment-string", one_key("general.alignment", g.STRING,
                                                  g.pack_string("32")), "general.alignment")
    yield refused("b06-alignment-2e63", header(1, 1) + g.pack_string("general.alignment") +
                  struct.pack("<IQ", g.U64, 2**63) + tensor_record([1]) + bytes(64), "")
    data, places = g.encode(g.base())
    yield refused("offset-unaligned",
                  g.patch(data, places["output_norm.weight.offset"], b"\x04"), "alignment 32")


def counts():
    """B08: counts and lengths that the file cannot hold."""
    for n in (2**63, 2**64 - 1, 2**61, 2**56, 2**32):
        yield refused("b08-tensors-%d" % n, header(n, 0) + bytes(32), "tensor count %d" % n)
        yield refused("b08-keys-%d" % n, header(0, n) + bytes(32), "key count %d" % n)
        yield refused("b08-both-%d" % n, header(n, n), "tensor count")
        yield refused("b08-name-%d" % n, header(1, 0) + struct.pack("<Q", n) + bytes(200),
                      "name length")
        yield refused("b08-string-%d" % n, one_key("k", g.STRING, struct.pack("<Q", n) + b"abc"),
                      "string length %d" % n)
        for kind in (g.U8, g.U16, g.U64, g.STRING):
            yield refused("b08-array-%d-%d" % (kind, n),
                          one_key("k", g.ARRAY, struct.pack("<IQ", kind, n) + bytes(40)),
                          "array length %d" % n)
    yield refused("name-empty", one_tensor([1], name="", data=bytes(4)), "name length 0")
    yield refused("name-256", one_tensor([1], name="n" * 256, data=bytes(4)), "name length 256")
    yield refused("name-control", one_tensor([1], name="a\x00b", data=bytes(4)), "readable")
    yield refused("name-not-utf8", one_tensor([1], name=b"a\xff", data=bytes(4)), "readable")


def nesting():
    """B10: arrays of arrays."""
    for depth in (1, 3000, 200000):
        yield refused("b10-depth-%d" % depth,
                      one_key("k", g.ARRAY, struct.pack("<IQ", g.ARRAY, 1) * depth + bytes(16)),
                      "arrays of arrays")


def duplicates():
    key = g.pack_string("same") + struct.pack("<II", g.U32, 1)
    yield refused("key-twice", header(0, 2) + key * 2, "named 'same'")
    body = header(2, 0) + tensor_record([8]) + tensor_record([8], offset=32)
    yield refused("tensor-twice", body + bytes(-len(body) % 32) + bytes(64), "named 't'")
    body = header(2, 0) + tensor_record([16]) + tensor_record([8], offset=32, name="u")
    yield refused("tensor-overlap", body + bytes(-len(body) % 32) + bytes(96),
                  "tensor 'u': overlaps tensor 't'")
    body = header(2, 0) + tensor_record([8]) + tensor_record([8], name="u")
    yield refused("tensor-same-place", body + bytes(-len(body) % 32) + bytes(32), "overlaps")


def files():
    data, places = g.encode(g.base())
    yield from truncations(data, places)
    yield from versions(data)
    yield from sizes()
    yield from types()
    yield from alignments()
    yield from counts()
    yield from nesting()
    yield from duplicates()
    yield from bad_models.models()


def flips(seed=20261130, count=120):
    """Copies of the base model with one to four bytes changed, anywhere. What is right depends on
    the byte: refused, or harmless."""
    data, _ = g.encode(g.base())
    noise = g.Noise(seed)

    def draw(limit):
        return int((noise.next() + 0.5) * limit)
    for i in range(count):
        changed = bytearray(data)
        # Half of the files in the metadata and the directory, where a byte means most.
        within = len(data) if i % 2 else g.encode(g.base())[1]["directory.end"]
        for _ in range(1 + draw(4)):
            changed[draw(within)] = draw(256)
        yield BadFile("flip-%d" % i, bytes(changed), "any", (0, 3, 4, 5), "")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "index"), "w", encoding="utf-8") as index:
        for bad in files():
            with open(os.path.join(folder, bad.name), "wb") as out:
                out.write(bad.data)
            index.write("%s\t%s\t%s\t%s\n" % (bad.name, bad.part, ",".join(map(str, bad.status)),
                                              bad.text))


if __name__ == "__main__":
    main()
