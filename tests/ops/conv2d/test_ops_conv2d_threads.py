"""A convolution has the same bits on any number of threads, however few pieces it comes in.

When this fails, conv2d gives other bits on machines with more cores.
"""

import isas
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops

# (n, c, oc, height and width, groups): where weights come from afar all of the images are one piece
# of work, which threads share by output channels.
SHAPES = [(1, 256, 1024, 14, 1), (8, 256, 1024, 7, 1), (2, 512, 600, 5, 2), (3, 1024, 30, 3, 1)]


@pytest.mark.parametrize("isa", [isa for isa in isas.HERE if isa != "ref"])  # ref is not cut so
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", [None, "tanh"])
def test_threads_share_one_piece_by_output_channels(monkeypatch, isa, shape, activation):
    n, c, oc, size, groups = shape
    monkeypatch.setenv("SPARKLE_CPU_ISA", isa)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, c, size, size), np.float32)
    w = rng.standard_normal((oc, c // groups, 1, 1), np.float32)
    bias = rng.standard_normal(oc, np.float32)
    found = []
    for threads in (1, 2, 3, 5):
        with sp.open("cpu", threads=threads) as dev:
            found.append(
                ops.conv2d(dev, x, w, bias, groups=groups, activation=activation, algo="direct")
            )
    parts = np.split(x.astype("f8"), groups, axis=1), np.split(w.astype("f8"), groups)
    sums = [np.einsum("nchw,oc->nohw", a, b[:, :, 0, 0]) for a, b in zip(*parts, strict=True)]
    wanted = np.concatenate(sums, axis=1) + bias[:, None, None]
    rms = np.sqrt((wanted**2).mean())  # tanh makes no error larger
    if activation:
        wanted = np.tanh(wanted)
    assert abs(found[0] - wanted).max() <= 1.5e-5 * rms
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
