"""Zenoh's log lines about links that a node refuses.

Zenoh writes only to descriptor 1, with colours. A process that wants these lines therefore
redirects the descriptor. All other output, Python's included, still reaches the old target.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable

from sparkle_drv.cluster.few_lines import FewLines

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_REFUSED = re.compile(r" WARN .*?zenoh_link_tls::\w+: (.*)")
_HINT = re.compile(r"\. Hint: .*")  # Zenoh's hint is about open files, whatever the real reason was
LEVEL = "zenoh_link_tls=warn"


def hear(say: Callable[[str], None]) -> None:
    """Calls `say(line)` for links that are refused from now on, within the limits of FewLines. Call
    `hear` once, before an Engine starts.
    """
    ends = os.pipe()
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(ends[1], 1)
    os.close(ends[1])
    sys.stdout = open(kept, "w", buffering=1, closefd=False)  # noqa: SIM115  until the process ends
    args = (ends[0], kept, FewLines(say))
    threading.Thread(target=_pass_on, args=args, name="sparkle-links", daemon=True).start()
    from sparkle_drv.cluster.transport.engine import log_links

    log_links(LEVEL)


def _pass_on(source: int, kept: int, say: Callable[[str], None]) -> None:
    with open(source, "rb") as lines:
        for line in lines:
            match = _REFUSED.search(_COLOURS.sub("", line.decode("utf-8", "replace")))
            if match is None:
                os.write(kept, line)
            else:
                say(f"refused: a link: {_HINT.sub('', match[1].strip())[:300]}")
