"""docs/results/gpu.md has what bench/gpu/model.py prints, and its arithmetic is what the page says."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench/gpu"))
import model


def test_the_page_is_what_the_program_prints():
    page = (ROOT / "docs/results/gpu.md").read_text()
    assert page == model.put(page, "\n".join(model.page()) + "\n"), \
        "run: python3 bench/gpu/model.py --write docs/results/gpu.md"


def test_the_bus_is_bound_by_bytes_or_by_requests():
    m = model.Machine("one", memory=1e12, bus=64e9, latency=1e-6, requests=64, fp32=1e12, watts=1, loads=1)
    lines = 1_000_000
    assert abs(model.wire(m, 4 * lines, lines) - lines / 64e6) < 1e-9  # 64 under way for a microsecond each
    fast = m._replace(requests=1 << 20)
    # Whole lines, at the rate of lines in order.
    assert abs(model.wire(fast, 4 * lines, lines) - lines * 128 / 64e9) < 1e-9
    assert model.wire(fast, lines, lines) < model.wire(fast, 4 * lines, lines)


def test_kernels_are_scaled_by_what_they_work_on():
    small = model.counts()
    same = {k: small[k] for k in ("expanded", "edges", "nodes")}
    for name, launches, device, sectors, lines in model.kernels("bus", same):
        k = small["bus"][name]
        assert (launches, device, sectors, lines) == (k["launches"], k["device_sectors"], k["bus_sectors"],
                                                      k["bus_lines"])
    twice = dict(
        model_row[:1] + (model_row[2:],) for model_row in model.kernels("bus", {k: 2 * v for k, v in same.items()}))
    assert all(abs(twice[name][0] - 2 * device) < 1e-6 for name, _, device, *_ in model.kernels("bus", same))
