"""The conformance suite, one test for each check and device; what it means is in
sparkle_drv/testing/suite.py and the files beside it.

When this fails, a device breaks a promise that every program relies on.
"""

import pytest
from uris import OF_SUITE

from sparkle_drv.testing import suite

pytestmark = pytest.mark.devices(*OF_SUITE)


@pytest.mark.parametrize("check", suite.checks(), ids=str)
def test_conformance(device, check):
    try:
        suite.judge(check, device)
    except suite.NotProvided as missing:
        pytest.skip(f"not provided: {missing}")
