"""The kernels' launchers: tools/ptx finds kernels and their structs, lays them out as a C++ compiler does, and refuses
what a launch would get wrong; and it reads what ptxas says."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools/ptx"))
import mirror  # noqa: E402
import pack  # noqa: E402
import ptx  # noqa: E402

SOURCE = """
typedef unsigned long long u64;
template <class T> struct Other { T* x; };
enum Kind : int { kPlain, kOdd = 4, kLast };
struct Leaf { float x; bool on, off; double y[3]; Kind kind; };
struct Rows {
  const float* __restrict__ in;
  unsigned char unit; short shift;
  int n = 3;
  u64 seed;
  Leaf leaf;
  Leaf *first, *rest;
  static constexpr int kLanes = 32;
  int lanes() const { return kLanes; }
};
extern "C" __global__ void copy_rows(Rows r) { }
static __device__ void helper(int x) { }
extern "C" __global__ void __launch_bounds__(256, 2) copy_back(const Rows r) { }
extern "C" __global__ void nothing() {}
"""
PTX = """
.visible .entry copy_rows(
	.param .align 8 .b8 copy_rows_param_0[80]
)
{
}
.visible .entry copy_back(
	.param .align 8 .b8 copy_back_param_0[80]
)
.maxntid 256, 1, 1
{
}
.visible .entry nothing(

)
{
}
"""


def read(text):
    return mirror.Source.of_text("gather/x_y.cu", text)


def test_structs_are_laid_out_as_a_compiler_does(tmp_path):
    source = read(SOURCE)
    assert {name: s and s.name for name,
            s in source.kernels.items()} == {"copy_rows": "Rows", "copy_back": "Rows", "nothing": None}
    assert [f[0] for f in source.structs["Rows"].fields] == [
        "in", "unit", "shift", "n", "seed", "leaf", "first", "rest"]
    plain = SOURCE.replace('extern "C" __global__',
                           "static").replace("__launch_bounds__(256, 2)", "").replace("__device__", "")
    asserts = re.sub(r"__INTADDR__\(&\(\((\w+)\*\)0\)->(\w+)\)", r"__builtin_offsetof(\1, \2)", source.asserts())
    (tmp_path / "x.cc").write_text(plain + asserts)
    made = subprocess.run(["g++", "-std=c++17", "-w", "-c", "-o", tmp_path / "x.o", tmp_path / "x.cc"],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    source.check(PTX)


def test_go_has_the_same_structs_and_a_launcher_of_them(tmp_path):
    files = mirror.go_files(str(tmp_path / "gather"), [read(SOURCE)])
    assert list(files) == [str(tmp_path / "gather" / name) for name in ("x_y_launch.go", "kernels_launch.go")]
    embed = files[str(tmp_path / "gather/kernels_launch.go")]
    assert "//go:embed kernels.ptx.zip\nvar kernelsPack []byte\n" in embed and "device" not in embed
    text = " ".join(files[str(tmp_path / "gather/x_y_launch.go")].split())
    for part in ["on.LoadPacked(kernelsPack, \"x_y.ptx\",", "package gather",
                 "copyRows, copyBack device.Launcher[deviceRows]",
                 "nothing device.Launcher[struct{}]", '"copy_back": &k.copyBack.Kernel,', "y [3]float64",
                 "on, off bool", "kind deviceKind",
                 "deviceOdd deviceKind = 4",
                 "unit uint8 _ [1]byte shift int16 n int32 seed uint64 leaf deviceLeaf first, rest device.Address",
                 "(unsafe.Offsetof(x.seed)^16)"]:
        assert part in text, part


@pytest.mark.parametrize("old, new, said", [
    ("copy_rows(Rows r)", "copy_rows(Rows r, int n)",
     "kernel copy_rows takes .Rows r, int n.: give it one struct, passed by value"),
    ("copy_rows(Rows r)", "copy_rows(const float* r)", "give it one struct"),
    ("u64 seed", "__half seed", "struct Rows: __half seed: the type is not known"),
    ("u64 seed", "u64 range", "Go has a keyword range"),
    ("y[3]", "y[kThree]", "the length of the array must be a number"),
    ("u64 seed", "u64& seed", "not understood"),
])
def test_what_go_cannot_mirror_is_refused(old, new, said):
    assert old in SOURCE
    with pytest.raises(mirror.Failure, match=said):
        read(SOURCE.replace(old, new))


@pytest.mark.parametrize("old, new, said", [
    ("copy_rows_param_0[80]", "copy_rows_param_0[104]", "copy_rows takes .*104.* in the PTX, 80 bytes were found"),
    (".align 8 .b8 copy_rows_param_0[80]", ".u64 copy_rows_param_0", "kernel copy_rows takes"),
    (".entry nothing", ".entry something", "kernel nothing, something: write it as"),
])
def test_what_a_launch_would_get_wrong_is_refused(old, new, said):
    assert old in PTX
    with pytest.raises(mirror.Failure, match=said):
        read(SOURCE).check(PTX.replace(old, new))


def test_registers_and_spills_are_read():
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'copy_rows' for 'sm_80'
ptxas info    : Function properties for copy_rows
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, 384 bytes cmem[0]
ptxas info    : Compiling entry function 'scale' for 'sm_80'
ptxas info    : Function properties for scale
    448 bytes stack frame, 512 bytes spill stores, 544 bytes spill loads
ptxas info    : Used 32 registers, 1024 bytes smem, 368 bytes cmem[0]
"""
    assert ptx.usage(log) == {"copy_rows": (30, 0, 0, 0), "scale": (32, 1024, 448, 1056)}


KERNELS = {"b.ptx": "second\n" * 400, "a.ptx": "first\n", "empty.ptx": ""}


def packed(tmp_path, members):
    path = tmp_path / pack.NAME
    path.write_bytes(pack.pack(members))
    return path


def test_a_pack_has_the_same_bytes_whenever_it_is_made(tmp_path, monkeypatch):
    made = pack.pack(KERNELS)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert pack.pack(dict(sorted(KERNELS.items()))) == made
    assert pack.unpack(packed(tmp_path, KERNELS)) == KERNELS
    # Of every Python: another bzip2, or another way to write ZIP files, would show.
    assert hashlib.sha256(made).hexdigest()[:16] == "026d25543718df54"


def test_a_damaged_pack_is_refused(tmp_path):
    path = packed(tmp_path, {"a.ptx": "first\n" * 9})
    whole = path.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:]):
            path.write_bytes(damaged)
            try:
                got = pack.unpack(path)
            except pack.Damaged as e:
                assert pack.NAME in str(e)
            else:  # a time, or a name: no text is another
                assert set(got.values()) <= {"first\n" * 9}


def test_a_check_names_what_differs(tmp_path):
    folder, path = str(tmp_path), packed(tmp_path, KERNELS)
    assert ptx.settle_pack(folder, KERNELS, True) == []
    changed = KERNELS | {"b.ptx": KERNELS["b.ptx"][:-2] + "x\n"}
    assert ptx.settle_pack(folder, changed, True) == [
        f"{path}: b.ptx is not what {folder}/b.cu gives: run make ptx and commit it"]
    assert len(ptx.settle_pack(folder, {"c.ptx": ""}, True)) == 4
    with zipfile.ZipFile(path, "w") as z:  # the same, otherwise compressed
        for name, text in KERNELS.items():
            z.writestr(name, text)
    assert ptx.settle_pack(folder, KERNELS, True) == [
        f"{path} is not what tools/ptx/pack.py writes: run make ptx and commit it"]
    path.write_bytes(b"no pack")
    assert "cannot be read" in ptx.settle_pack(folder, KERNELS, True)[0]
    assert ptx.settle_pack(folder, KERNELS, False) == [] and pack.unpack(path) == KERNELS


def test_ptx_is_unpacked_for_the_simulator(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "ROOT", tmp_path)
    (tmp_path / "gather").mkdir()
    packed(tmp_path / "gather", KERNELS)
    to = tmp_path / "dist/ptx"
    pack.extract(to)
    os.utime(to / "gather/a.ptx", (1, 1))
    packed(tmp_path / "gather", {"a.ptx": KERNELS["a.ptx"], "b.ptx": "changed"})
    pack.extract(to)
    assert {p.name: p.read_text() for p in (to / "gather").iterdir()} == {"a.ptx": "first\n", "b.ptx": "changed"}
    assert (to / "gather/a.ptx").stat().st_mtime == 1


def test_a_check_is_done_again_when_a_file_of_it_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(ptx, "ROOT", tmp_path)
    monkeypatch.setattr(pack, "ROOT", tmp_path)
    files = ["a/x.cu", "a/kernels.ptx.zip", "a/x.ptx", "a/x_launch.go", "b/y.cuh",
             "device/include/nvrtc/cuda_env.h", "tools/ptx/ptx.py", "tools/ptx/mirror.py",
             "tools/ptx/pack.py", "tools/ptx/cuda11.txt"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "a/other.go").write_text("nothing of a kernel")
    seen = {ptx.digest_of_all()}
    for name in files:
        (tmp_path / name).write_text(name + " changed")
        seen.add(ptx.digest_of_all())
    (tmp_path / "a/x.ptx").rename(tmp_path / "a/z.ptx")
    seen.add(ptx.digest_of_all())
    assert len(seen) == len(files) + 2
    (tmp_path / "a/other.go").write_text("nothing, in other words")
    assert ptx.digest_of_all() in seen
