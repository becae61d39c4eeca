"""What tests of the bench share: kernels that are right or wrong, a home of its own, the tool."""

from __future__ import annotations

import contextlib
import subprocess

import pytest

# What a saxpy may get wrong. Entry after entry, the way real kernels do.
KERNELS = """
#include <stdint.h>
#include <string.h>
struct args { float *y; const float *x; float a; uint32_t n; };
#define EACH(body) const struct args *p = v; uint32_t base = g[0] * s[0]; \\
    for (uint32_t i = base; i < base + s[0] && i < p->n; i++) { body; }
#define KERNEL(name) void name(const void *v, const uint32_t g[3], const uint32_t s[3])

KERNEL(good) { EACH(p->y[i] += p->a * p->x[i]) }
KERNEL(nothing) { (void)v; (void)g; (void)s; }
KERNEL(off_by_one) { EACH(if (i + 1 < p->n) p->y[i] += p->a * p->x[i]) }
KERNEL(writes_behind) { EACH(p->y[i] += p->a * p->x[i]); if (base == 0) p->y[p->n] = 1.0f; }
KERNEL(writes_before) { EACH(p->y[i] += p->a * p->x[i]); if (base == 0) p->y[-3] = 1.0f; }
KERNEL(writes_input) { EACH(p->y[i] += p->a * p->x[i]; ((float *)p->x)[i] = 0.0f) }
KERNEL(zeros) { EACH(p->y[i] = 0.0f) }
KERNEL(cached) {
    static float kept[1 << 16];
    static uint32_t done;
    const struct args *p = v;
    if (g[0]) return;
    if (!done) for (uint32_t i = 0; i < p->n; i++) kept[i] = p->y[i] + p->a * p->x[i];
    done = 1;
    memcpy(p->y, kept, p->n * sizeof(float));
}
/* Write-only output: copy, with and without a hole, and one whose result depends on the poison. */
KERNEL(copy) { EACH(p->y[i] = p->x[i]) }
KERNEL(copy_with_hole) { EACH(if (i != 5) p->y[i] = p->x[i]) }
KERNEL(copy_first_only) { EACH(p->y[i] = p->x[0]) }

struct sum { float *y; const float *x; uint32_t outer, n, inner; };
static float total(const struct sum *p, uint32_t from, uint32_t to)
{
    float sum = 0.0f;
    for (uint32_t i = from; i < to; i++) sum += p->x[i];
    return sum;
}
KERNEL(sum_good) { const struct sum *p = v; (void)g; (void)s; p->y[0] = total(p, 0, p->n); }
KERNEL(sum_short) { const struct sum *p = v; (void)g; (void)s; p->y[0] = total(p, 0, p->n - 1); }
KERNEL(sum_late) { const struct sum *p = v; (void)g; (void)s; p->y[0] = total(p, 1, p->n); }
static float largest(const struct sum *p, uint32_t from, uint32_t to)
{
    float most = p->x[from];
    for (uint32_t i = from; i < to; i++) most = p->x[i] > most ? p->x[i] : most;
    return most;
}
KERNEL(max_good) { const struct sum *p = v; (void)g; (void)s; p->y[0] = largest(p, 0, p->n); }
KERNEL(max_short) { const struct sum *p = v; (void)g; (void)s; p->y[0] = largest(p, 0, p->n - 1); }
KERNEL(max_late) { const struct sum *p = v; (void)g; (void)s; p->y[0] = largest(p, 1, p->n); }
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Path of a shared library with the kernels above."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.c").write_text(KERNELS)
    made = folder / "kernels.so"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", "-o", str(made), str(folder / "kernels.c")], check=True
    )
    return made


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A SPARKLE_HOME of its own."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("SPARKLE_HOME", str(folder))
    return folder


@pytest.fixture
def bench(home):
    """bench(*words) -> exit code of `bench.py words` run in this process."""
    import bench as tool

    def run(*words: object) -> int:
        try:
            return tool.main([str(word) for word in words])
        except SystemExit as leave:
            return int(leave.code or 0)

    return run


@pytest.fixture
def in_this_process(monkeypatch):
    """Users' kernels are measured in this process rather than in a child, which takes half a second
    to start. Children have tests of their own (kernel/test_bench_child.py).
    """
    from _bench.commands import runner

    def here(uri, info, settings, threshold):
        return runner.meter.here(uri, settings, threshold)

    monkeypatch.setattr(runner.child, "started", here)


@pytest.fixture
def no_roofs(monkeypatch):
    """Rows are measured without roofs beside them and without self-tests, as on an emulated card:
    for tests of what becomes of a row, which those would take four times as long.
    """
    from _bench.commands import runner

    monkeypatch.setattr(runner.meter.probes, "gauges", lambda *_: contextlib.nullcontext())
