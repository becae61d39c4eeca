"""Recordings of bring-up runs: `--record FILE` around a run, `--replay FILE` on a device.

with recorded("run.rec"): ...  # records every amdgpu render node that is opened inside
outcome = replay("run.rec", "emu:gfx1100")  # on a new emulated card
outcome = replay("run.rec", "amdgpu:0")  # on a real card of this machine

docs/recording.md explains both.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import Outcome, Recorder, RecordingError, recorded
from sparkle_drv.testing.emulated_options import card_problem
from sparkle_drv.testing.emulator import Machine

__all__ = ["Outcome", "Recorder", "RecordingError", "recorded", "replay", "report"]

# Seconds that the recorder waits for a job to end. The limit is short, because some jobs end only
# after their rung's next step.
RECORDED_JOB_S = 0.3
_NODE = re.compile(r"^node \d+ amdgpu 3\.(\d+)\.", re.M)
_CARD = re.compile(r"(?:amdgpu|amd)(?::(.*))?\Z")
_EMULATED = re.compile(r"emu(?::([\w.:-]+))?(?:#\d+)?\Z")


class NotReplayed(ValueError):
    """Recordings cannot be replayed on a device of this kind."""


def replay(path: str | Path, uri: str) -> Outcome:
    """Repeats a recording on `uri`. Raises OSError for the file, RecordingError for its contents,
    NotReplayed for the device, DeviceNotFound for the card.
    """
    text = Path(path).read_text(errors="replace")
    if real := _CARD.match(uri):
        return lowlevel.replay(text, lowlevel.on_card(f"amdgpu:{real[1] or 0}"))
    found = _EMULATED.match(uri)
    if found is None or card_problem(found[1] or "gfx1100"):
        raise NotReplayed(f"--replay: expected a device amdgpu:N or emu:CHIP, got {uri!r}")
    said = _NODE.search(text)
    with Machine([found[1] or "gfx1100"], kms_minor=int(said[1]) if said else 0) as machine:

        def open_node(node: Any) -> tuple[Any, int]:
            opened = machine.open()
            fd, opened.fd = opened.fd, -1  # the replay closes the descriptor
            return machine.ops, fd

        return lowlevel.replay(text, open_node)


def around_climb(path: str, memory: bool) -> Any:
    """Returns the context in which a climb runs: one that records to `path`, or one that does
    nothing if `path` is "".
    """
    if not path:
        return contextlib.nullcontext()
    return recorded(path, memory=memory, wait_s=RECORDED_JOB_S)


def report(outcome: Outcome) -> list[str]:
    """Returns the result of a replay as lines for people. The last line is the verdict."""
    done = f"{outcome.calls} calls, {outcome.jobs} jobs, {outcome.nodes} nodes"
    skipped = [f"left out {n} x {why}" for why, n in outcome.skipped.items()]
    return [done, *skipped, outcome.difference or "as recorded"]
