"""What several tests of operations look at."""

import pytest

from sparkle_drv.ops.calls import prepared_call
from sparkle_drv.ops.memory import staging


@pytest.fixture
def slowly(monkeypatch):
    """The kernels of the launches that Python made; the call table makes its own."""
    seen = []
    launch, plan = staging.Stage.launch, prepared_call.PreparedCall._launch

    def note(self, kernel, *args):
        seen.append(kernel)
        return launch(self, kernel, *args)

    def note_plan(self, *operands):
        seen.append(self.kernel)
        return plan(self, *operands)

    monkeypatch.setattr(staging.Stage, "launch", note)
    monkeypatch.setattr(prepared_call.PreparedCall, "_launch", note_plan)
    return seen
