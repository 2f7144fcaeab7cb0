#!/usr/bin/env python3
"""Makes tests/fuzz/corpus/pickle and tests/fuzz/corpus/torch_zip: small PyTorch files, right and wrong, byte by byte and
without torch. Usage: tests/fuzz/torch_corpus.py tests/fuzz/corpus"""
import io
import os
import pickle
import struct
import sys
import zipfile

root = sys.argv[1]


def write(target, name, data):
    os.makedirs(f"{root}/{target}", exist_ok=True)
    with open(f"{root}/{target}/{name}", "wb") as f:
        f.write(data)


# --- pickles ---------------------------------------------------------------------------------------------------------------

def text(s):
    s = s.encode()
    return b"X" + struct.pack("<I", len(s)) + s


def glob(module, name):
    return f"c{module}\n{name}\n".encode()


def num(v):
    return b"\x8a\x08" + struct.pack("<q", v)


def tup(*items):
    return b"(" + b"".join(items) + b"t"


def dic(**items):
    return b"}(" + b"".join(text(k) + v for k, v in items.items()) + b"u"


def storage(kind, key, elems, *view):
    module = "torch.storage" if kind == "UntypedStorage" else "torch"
    return tup(text("storage"), glob(module, kind), text(key), text("cpu"), num(elems), *view) + b"Q"


ORDERED = glob("collections", "OrderedDict") + b")R"


def tensor(store, offset=0, size=(2, 3), stride=(3, 1), name="_rebuild_tensor_v2", *more):
    return (glob("torch._utils", name)
            + tup(store, num(offset), tup(*map(num, size)), tup(*map(num, stride)), b"\x89", ORDERED, *more) + b"R")


def proto2(body):
    return b"\x80\x02" + body + b"."


floats = storage("FloatStorage", "0", 6)
system = glob("posix", "system") + text("id") + b"\x85R"
state = dict(w=tensor(floats), t=tensor(floats, 0, (3, 2), (1, 3)), s=tensor(floats, 5, (), ()),
             z=tensor(storage("HalfStorage", "1", 0), 0, (0, 4), (4, 1)))
good = {
    "state": proto2(dic(**state)),
    "nested": proto2(dic(model=dic(w=state["w"]), args=dic(dim=b"K\x40", lr=b"G" + struct.pack(">d", 1e-3), name=text("x"),
                                                            flag=b"\x88", none=b"N"), steps=b"](K\x01K\x02e")),
    "parameter": proto2(dic(w=glob("torch._utils", "_rebuild_parameter") + tup(state["w"], b"\x88", ORDERED) + b"R")),
    "untyped": proto2(dic(w=tensor(storage("UntypedStorage", "0", 24), 0, (6,), (1,), "_rebuild_tensor_v3",
                                   glob("torch", "uint32")))),
    "size": proto2(dic(shape=glob("torch", "Size") + tup(tup(num(2), num(3))) + b"R")),
    "opaque": proto2(dic(w=state["w"], args=glob("argparse", "Namespace") + b")\x81}b", evil=system)),
    "shared": proto2(b"](" + state["w"] + b"q\x07h\x07h\x07e"),
}
bad = {
    "evil_global": proto2(system),
    "evil_storage": proto2(dic(w=tensor(system))),
    "evil_type": proto2(dic(w=tensor(tup(text("storage"), glob("os", "system"), text("0"), text("cpu"), num(6)) + b"Q"))),
    "deep_lists": proto2(b"](" * 200 + b"e" * 200),
    "deep_tuples": proto2(b"(" * 5000 + b"t" * 5000),
    "self": proto2(b"]q\x00h\x00a"),
    "memo_bomb": proto2(b"Nr\xff\xff\xff\x7f"),
    "laughs": proto2(b"".join(b"](" + (b"h" + bytes([i])) * 10 + b"eq" + bytes([i + 1]) if i else b"]q\x01" for i in range(20))),
    "text_bomb": proto2(b"X\xff\xff\xff\xff"),
    "long_bomb": proto2(b"\x8b\xff\xff\xff\x7f"),
    "frame_bomb": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
    "extent": proto2(dic(w=tensor(floats, 1))),
    "stride": proto2(dic(w=tensor(floats, 0, (2, 2), (1, 2 ** 62)))),
    "overflow": proto2(dic(w=tensor(floats, 0, (2 ** 40, 2 ** 40), (0, 0)))),
    "negative": proto2(dic(w=tensor(floats, -1))),
    "rank": proto2(dic(w=tensor(floats, 0, (1,) * 9, (1,) * 9))),
    "numel": proto2(dic(w=tensor(storage("FloatStorage", "0", 2 ** 62)))),
    "no_storage": proto2(dic(w=tensor(storage("FloatStorage", "9", 6)))),
    "quantized": proto2(dic(w=tensor(storage("QInt8Storage", "0", 6)))),
    "two_names": proto2(b"}(" + text("a.b") + state["w"] + text("a") + dic(b=state["w"]) + b"u"),
}
plain = {"a": [1, -1, 2 ** 70, 1.5, None, True, (), (1,), (1, 2, 3, 4)], "b": {"c": "text", "d": b"bytes"}, 3: {1, 2}}
for protocol in range(6):
    write("pickle", f"python{protocol}", pickle.dumps(plain, protocol))
for name, data in {**good, **bad}.items():
    write("pickle", name, data)


# --- zip archives ----------------------------------------------------------------------------------------------------------

ELEMS = struct.pack("<6f", *range(6))


def archive(entries, method=0, flags=0x808, zip64=True, count=None):
    body = central = b""
    for name, data in entries:
        at, name = len(body), name.encode()
        pad = b"FB" + struct.pack("<H", 4) + b"ZZZZ"
        body += struct.pack("<4s5H3I2H", b"PK\3\4", 0, flags, method, 0, 0, 0, 0, 0, len(name), len(pad)) + name + pad + data
        if zip64:
            extra = struct.pack("<2H3Q", 1, 24, len(data), len(data), at)
            sizes, where = (2 ** 32 - 1, 2 ** 32 - 1), 2 ** 32 - 1
        else:
            extra, sizes, where = b"", (len(data), len(data)), at
        central += struct.pack("<4s6H3I5H2I", b"PK\1\2", 0, 0, flags, method, 0, 0, 0, *sizes, len(name), len(extra), 0, 0, 0, 0,
                               where) + name + extra
    at, n = len(body), len(entries) if count is None else count
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 0, 0, 0, 0, n, n, len(central), at)
    end64 += struct.pack("<4sIQI", b"PK\6\7", 0, at + len(central), 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, min(n, 65535), min(n, 65535), len(central), at, 0)
    return body + central + (end64 if zip64 else b"") + end


def torch_zip(data, **how):
    return archive([("m/data.pkl", data), ("m/byteorder", b"little"), ("m/data/0", ELEMS), ("m/data/1", b""), ("m/version", b"3\n")],
                   **how)


def python_zip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in [("m/data.pkl", good["state"]), ("m/data/0", ELEMS), ("m/data/1", b"")]:
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


for name, data in {**good, **bad}.items():
    if name != "deep_tuples":
        write("torch_zip", name, torch_zip(data))
whole = torch_zip(good["state"])
write("torch_zip", "zip32", torch_zip(good["state"], zip64=False, flags=0))
write("torch_zip", "python_zip", python_zip())
write("torch_zip", "compressed", torch_zip(good["state"], method=8))
write("torch_zip", "encrypted", torch_zip(good["state"], flags=1))
write("torch_zip", "count", torch_zip(good["state"], count=2 ** 60))
write("torch_zip", "script", archive([("m/data.pkl", good["state"]), ("m/constants.pkl", b")."), ("m/code/m.py", b"")]))
write("torch_zip", "two_entries", archive([("m/data.pkl", good["state"]), ("m/data.pkl", good["state"])]))
write("torch_zip", "big_endian", archive([("m/data.pkl", good["state"]), ("m/byteorder", b"big")]))
write("torch_zip", "cut", whole[:len(whole) // 2])


# --- the stream before zip -------------------------------------------------------------------------------------------------

def legacy(body, keys=("0",), elems=6, little=b"\x88"):
    head = proto2(b"\x8a\x0a" + bytes.fromhex("6cfc9c46f9206aa85019")) + proto2(b"M\xe9\x03")
    system_info = proto2(dic(protocol_version=b"M\xe9\x03", little_endian=little))
    return (head + system_info + proto2(body) + proto2(b"](" + b"".join(map(text, keys)) + b"e")
            + b"".join(struct.pack("<Q", elems) + ELEMS for _ in keys))


def old(elems=6, view=b"N"):
    return storage("FloatStorage", "0", elems, view)


write("torch_zip", "legacy", legacy(dic(w=tensor(old()))))
write("torch_zip", "legacy_view", legacy(dic(w=tensor(old(6, tup(text("v"), num(2), num(4))), 0, (4,), (1,)))))
write("torch_zip", "legacy_view_out", legacy(dic(w=tensor(old(6, tup(text("v"), num(2), num(2 ** 62))), 0, (4,), (1,)))))
write("torch_zip", "legacy_elems", legacy(dic(w=tensor(old())), elems=2 ** 62))
write("torch_zip", "legacy_key", legacy(dic(w=tensor(old())), keys=("1",)))
write("torch_zip", "legacy_twice", legacy(dic(w=tensor(old())), keys=("0", "0")))
write("torch_zip", "legacy_big", legacy(dic(w=tensor(old())), little=b"\x89"))
