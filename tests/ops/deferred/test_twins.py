"""Random expressions over views, types and writes are numpy's: nothing that waits is ever stale.

When this fails, an array expression gives a stale or wrong result.
"""

from __future__ import annotations

import pytest
import twins


@pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")
@pytest.mark.timeout(400)
def test_random_expressions(fresh, request):
    """--expressions 500 draws so many; the message of a failure ends with its seed and steps."""
    wanted, done, seed = request.config.getoption("--expressions"), 0, 26
    while done < wanted:
        play = twins.Play(fresh, seed)
        while play.expressions < 25:
            play.step()
        for twin in play.twins:
            twin.check(" / ".join([play.log[0], *play.log[-8:]]))
        play.queue.close()
        done, seed = done + play.expressions, seed + 1
