"""The kernels' launchers: tools/ptx finds kernels, refuses parameters that a launch would get wrong, and reads what ptxas says."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("ptx", Path(__file__).parents[1] / "tools/ptx/ptx.py")
ptx = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ptx)

SOURCE = """
extern "C" __global__ void copy_rows(float* __restrict__ out, const float* in, int64_t n, unsigned long long seed) { }
static __device__ void helper(int x) { }
extern "C" __global__ void __launch_bounds__(256, 2) scale(double type, uint64_t* k) { }
extern "C" __global__ void nothing() {}
"""
PTX = """
.visible .entry copy_rows(
	.param .u64 copy_rows_param_0,
	.param .u64 copy_rows_param_1,
	.param .u64 copy_rows_param_2,
	.param .u64 copy_rows_param_3
)
{
}
.visible .entry scale(
	.param .f64 scale_param_0,
	.param .u64 scale_param_1
)
.maxntid 256, 1, 1
{
}
.visible .entry nothing(

)
{
}
"""


def test_kernels_are_found_with_their_parameters():
    kernels = ptx.parse(SOURCE, "x.cu")
    assert [name for name, _ in kernels] == ["copy_rows", "scale", "nothing"]
    assert kernels[0][1] == [("float* __restrict__", "out"), ("const float*", "in"), ("int64_t", "n"), ("unsigned long long", "seed")]
    ptx.check_parameters("x.cu", kernels, PTX)


def test_launchers_pass_cells_of_64_bits():
    text = ptx.launchers("gather/x_y.cu", ptx.parse(SOURCE, "x.cu"))
    assert "//go:embed x_y.ptx\nvar xYPTX []byte" in text
    assert "copyRows(stream *cuda.Stream, grid, block cuda.Dim3, shared int, out cuda.Address, in cuda.Address, n int64, seed uint64) error" in text
    assert "stream.Launch(kernels.copyRowsKernel, grid, block, shared, uint64(out), uint64(in), uint64(n), seed)" in text
    assert "stream.Launch(kernels.scaleKernel, grid, block, shared, math.Float64bits(typeArg), uint64(k))" in text
    assert "stream.Launch(kernels.nothingKernel, grid, block, shared)" in text


@pytest.mark.parametrize("old, new, said", [
    (".param .u64 copy_rows_param_2", ".param .u32 copy_rows_param_2", "parameter n is int64_t, which is not 8 bytes"),
    (".param .f64 scale_param_0", ".param .align 8 .b8 scale_param_0[16]", "parameter type is double, which is not 8 bytes"),
    (",\n\t.param .u64 copy_rows_param_3", "", "4 parameters were found, the PTX has 3"),
    (".entry nothing", ".entry something", "kernel nothing, something: write it as"),
])
def test_what_a_launch_would_get_wrong_is_refused(old, new, said):
    assert old in PTX
    with pytest.raises(ptx.Failure, match=said):
        ptx.check_parameters("x.cu", ptx.parse(SOURCE, "x.cu"), PTX.replace(old, new))


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
