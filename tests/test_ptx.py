"""The kernels' launchers: tools/ptx finds kernels and their structs, lays them out as a C++ compiler does, and refuses
what a launch would get wrong; and it reads what ptxas says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools/ptx"))
import mirror  # noqa: E402
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
    assert list(files) == [str(tmp_path / "gather/x_y_launch.go")]
    text = " ".join(files[str(tmp_path / "gather/x_y_launch.go")].split())
    for part in ["//go:embed x_y.ptx var xYPTX []byte", "package gather",
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


def test_a_check_is_done_again_when_a_file_of_it_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(ptx, "ROOT", tmp_path)
    files = ["a/x.cu", "a/x.ptx", "a/x_launch.go", "b/y.cuh", "device/include/nvrtc/cuda_env.h", "tools/ptx/ptx.py",
             "tools/ptx/mirror.py", "tools/ptx/cuda11.txt"]
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
