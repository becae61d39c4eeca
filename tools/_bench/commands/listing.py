"""The list command prints every manifest kernel with its signature, axes, costs and tags.

It needs no device.
"""

from __future__ import annotations

from typing import Any

from _bench.jobs.axes import short
from _bench.jobs.workloads import table as workloads

COLUMNS = ("kernel", "arguments", "axes", "flops", "bytes", "form and tags", "what")


def entries(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns one JSON object per kernel, as `list --json` prints it."""
    found = []
    for name, entry in manifest.items():
        row = workloads()[name]
        found.append(
            {
                "kernel": name,
                "args": [f"{arg['type']} {arg['name']}" for arg in entry["args"]],
                "axes": {axis.name: list(axis.default) for axis in row.axes},
                "words": {axis.name: list(axis.words) for axis in row.axes if axis.words},
                "flops": row.flops,
                "nbytes": row.nbytes,
                "backends": {
                    backend: {"form": has["form"], "variants": has.get("variants", {})}
                    for backend, has in entry["backends"].items()
                },
                "doc": entry["doc"],
            }
        )
    return found


def cells(entry: dict[str, Any]) -> list[str]:
    tags = [
        f"{backend} {has['form']}: {' '.join(_tags(has['variants']))}"
        for backend, has in entry["backends"].items()
    ]
    arguments = entry["args"] if len(entry["args"]) <= 6 else [*entry["args"][:5], "..."]
    axes = (
        f"{name}={','.join(short(v) for v in values)}" for name, values in entry["axes"].items()
    )
    flops = "" if entry["flops"] == "0" else entry["flops"]
    nbytes = "" if entry["nbytes"] == "0" else entry["nbytes"]
    return [
        entry["kernel"],
        ", ".join(arguments),
        " ".join(axes),
        flops,
        nbytes,
        ", ".join(tags),
        entry["doc"],
    ]


def _tags(variants: dict[str, str]) -> list[str]:
    """Returns "reference", or "tuned (avx2 avx512)" with the instruction sets that have a tuned
    variant.
    """
    tagged = {
        tag: [isa for isa, has in variants.items() if has == tag]
        for tag in dict.fromkeys(variants.values())
    }
    return [tag if isas == ["ref"] else f"{tag} ({' '.join(isas)})" for tag, isas in tagged.items()]
