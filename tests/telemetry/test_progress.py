"""Long steps are reported on a terminal once, in one line, and in the log.

When this fails, a long step looks like a hang, or fills the terminal.
"""

import io
import logging
import os
import sys
import time

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.sched.run import probe
from sparkle_drv.telemetry import progress

MARGIN_S = 30


class Terminal:
    """The near end of a pseudo-terminal."""

    def __init__(self):
        self.near, far = os.openpty()
        os.set_blocking(self.near, False)
        self.far = os.fdopen(far, "w")

    def read(self):
        try:
            return os.read(self.near, 1 << 16).decode().replace("\r\n", "\n")
        except BlockingIOError:
            return ""

    def close(self):
        os.close(self.near)
        self.far.close()


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


def told_on(terminal, monkeypatch, limit_s):
    """From now on, in the test itself: pytest puts its own stderr in place before each phase."""
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "LONG_S", limit_s)


def test_it_is_told_while_it_goes_on(terminal, monkeypatch, caplog):
    told_on(terminal.far, monkeypatch, 0.01)
    caplog.set_level(logging.INFO, "sparkle_drv")
    with progress.reported("measuring x"):
        deadline = time.monotonic() + MARGIN_S
        while not (seen := terminal.read()):
            assert time.monotonic() < deadline
    assert seen == "sparkle_drv: measuring x ...\n"
    assert terminal.read() == ""
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage().startswith("measuring x took ")


def test_what_is_short_is_not_told(terminal, monkeypatch, caplog):
    told_on(terminal.far, monkeypatch, MARGIN_S)
    caplog.set_level(logging.DEBUG, "sparkle_drv")
    with progress.reported("measuring x"):
        pass
    assert (terminal.read(), caplog.records) == ("", [])


def test_one_line_however_it_ends(terminal, monkeypatch):
    """By a failure, without a thread for the timer, and with a block inside another one."""
    told_on(terminal.far, monkeypatch, 0.0)

    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refused)
    with (
        pytest.raises(KeyboardInterrupt),
        progress.reported("outside"),
        progress.reported("inside"),
    ):
        raise KeyboardInterrupt
    assert terminal.read() == "sparkle_drv: outside ...\n"


@pytest.mark.parametrize("stderr", ["none", "file", "closed"])
def test_without_a_terminal_only_the_log_knows(stderr, monkeypatch, caplog, capsys):
    caplog.set_level(logging.INFO, "sparkle_drv")
    given = None if stderr == "none" else io.StringIO()
    if stderr == "closed":
        given.close()
    told_on(given, monkeypatch, 0.0)
    with progress.reported("measuring x"):
        pass
    assert stderr != "file" or given.getvalue() == ""
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_that_goes_away_is_no_error(terminal, monkeypatch):
    told_on(terminal.far, monkeypatch, 0.0)
    with progress.reported("measuring x"):
        terminal.far.close()


def test_measuring_and_compiling_are_told(terminal, monkeypatch):
    a = np.ones((16, 16), np.float32)
    monkeypatch.setattr(probe, "BUDGET_S", 0.0)
    with sp.init(["cpu"], profile=False) as ctx:
        told_on(terminal.far, monkeypatch, MARGIN_S)
        ctx.device.kernel("gemm_f32").close()
        assert terminal.read() == ""
        told_on(terminal.far, monkeypatch, 0.0)
        ctx.device.kernel("copy_f32").close()
        assert terminal.read() == "sparkle_drv: compiling copy_f32 for cpu ...\n"
        ctx.map("a + 1", a=a)
        assert terminal.read().startswith("sparkle_drv: measuring map_f32:")
    with sp.init(["egl:0"], profile=False) as ctx:
        ctx.gemm(a, a)
        assert terminal.read().splitlines()[:2] == [
            "sparkle_drv: measuring transfers of egl:0 ...",
            "sparkle_drv: measuring gemm_f32 on egl:0 ...",
        ]
