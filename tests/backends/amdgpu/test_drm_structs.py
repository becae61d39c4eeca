"""Our declarations of the kernel's interface against libdrm's headers. Every size, offset and
constant that both have must agree, and every name of ours must be in one of them.

When this fails, ioctls on real kernels read other fields than the driver wrote.

Two translation units print what they find, since both headers use the kernel's names.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import libdrm
import pytest
from cffi import FFI
from where import ROOT

INCLUDE = ROOT / "native" / "include"
OURS = ("sp_base.h", "sp_drm.h", "sp_amdgpu_drm.h")
VERSIONS = ["system", "backports"]
# Not in libdrm 2.4.123 either, which is KMS 3.57 or so.
NEWER = {
    "AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS",
    "AMDGPU_GEM_CREATE_COHERENT",
    "AMDGPU_GEM_CREATE_EXT_COHERENT",
    "AMDGPU_GEM_CREATE_GFX12_DCC",
    "AMDGPU_GEM_CREATE_UNCACHED",
    "struct drm_amdgpu_info_device.userq_ip_mask",
    "struct drm_amdgpu_info_device.pad",
    "sizeof struct drm_amdgpu_info_device",
}
# Members that an old header calls padding.
RENAMED = {
    "struct drm_amdgpu_info_device.pcie_gen": "_pad",
    "struct drm_amdgpu_info_device.pcie_num_lanes": "_pad1",
    "struct drm_amdgpu_info_hw_ip.ip_discovery_version": "_pad",
}
# Grow from version to version: ours is not the smaller one.
GROWING = {
    "AMDGPU_HW_IP_NUM",
    "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT",
    "DRM_IOCTL_SYNCOBJ_WAIT",
    "sizeof struct drm_amdgpu_info_device",
    "sizeof struct drm_syncobj_timeline_wait",
    "sizeof struct drm_syncobj_wait",
}


def members(ctype, prefix=""):
    """Dotted names of all members, through anonymous and nested structs."""
    for name, field in ctype.fields:
        path = f"{prefix}.{name}".strip(".") if name else prefix
        if name:
            yield path
        if field.type.kind in ("struct", "union") and (not name or "<" in field.type.cname):
            yield from members(field.type, path)


@pytest.fixture(scope="module")
def facts():
    """name -> C expression, for all that our headers declare."""
    ffi = FFI()
    text = "\n".join((INCLUDE / name).read_text() for name in OURS)
    ffi.cdef("\n".join("" if line.startswith("#") else line for line in text.splitlines()))
    _, structs, unions = ffi.list_types()
    found = {}
    for kind, names in (("struct", structs), ("union", unions)):
        for name in (n for n in names if n.startswith("drm_")):
            whole = f"{kind} {name}"
            found[f"sizeof {whole}"] = f"sizeof({whole})"
            for path in members(ffi.typeof(whole)):
                found[f"{whole}.{path}"] = f"__builtin_offsetof({whole}, {path})"
    enums = re.findall(r"\benum \{(.*?)\};", re.sub(r"/\*.*?\*/", "", text, flags=re.S), re.S)
    for name in re.findall(r"\b((?:DRM|AMDGPU)_\w+)\s*=", " ".join(enums)):
        found[name] = name
    return found


def renamed(name, expression):
    old = RENAMED.get(name)
    return re.sub(r", \w+\)$", f", {old})", expression) if old else expression


class Program:
    """One translation unit that prints what it knows of the facts."""

    def __init__(self, folder, headers, flags):
        self.path = Path(folder)
        self.head = "#include <stdio.h>\n" + "".join(f"#include {h}\n" for h in headers)
        self.flags = [*flags, "-w", "-std=gnu11"]

    def compile(self, source, *more):
        file = self.path / "facts.c"
        file.write_text(source)
        command = ["gcc", *self.flags, *more, str(file), "-o", str(self.path / "facts")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def source(self, facts):
        lines = [
            f'printf("%s\\t%lld\\n", "{name}", (long long)({expression}));'
            for name, expression in facts.items()
        ]
        return self.head + "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"

    def known(self, facts):
        """The facts whose lines compile."""
        done = self.compile(self.source(facts), "-fsyntax-only", "-fmax-errors=0")
        first = self.head.count("\n") + 2
        wrong = {int(n) - first for n in re.findall(r"facts\.c:(\d+):\d+: error", done.stderr)}
        return {name: e for i, (name, e) in enumerate(facts.items()) if i not in wrong}

    def values(self, facts):
        built = self.compile(self.source(facts))
        assert built.returncode == 0, built.stderr
        run = subprocess.run([self.path / "facts"], capture_output=True, text=True, check=True)
        return {name: int(v) for name, v in (line.split("\t") for line in run.stdout.splitlines())}


@pytest.fixture(scope="module")
def ours(facts, tmp_path_factory):
    headers = [f'"{INCLUDE / name}"' for name in OURS]
    return Program(tmp_path_factory.mktemp("ours"), headers, []).values(facts)


def theirs(version, facts, folder):
    where = libdrm.include(version)
    program = Program(folder, ["<fcntl.h>", "<drm.h>", "<amdgpu_drm.h>"], [f"-I{where}"])
    known = program.known(facts)
    unknown = {name: renamed(name, facts[name]) for name in facts if name not in known}
    return program.values({**known, **program.known(unknown)})


@pytest.mark.parametrize("version", VERSIONS)
def test_sizes_offsets_and_constants_agree(version, facts, ours, tmp_path):
    found = theirs(version, facts, tmp_path)
    assert len(found) > 300
    different = {
        name: (ours[name], value)
        for name, value in found.items()
        # As unsigned 32 bits: request words are negative for who reads them as int.
        if name not in GROWING and (ours[name] ^ value) & 0xFFFFFFFF
    }
    assert different == {}
    for name in GROWING & found.keys():
        assert ours[name] >= found[name]


def test_every_name_of_ours_is_the_kernels(facts, tmp_path):
    assert set(facts) - set(theirs("backports", facts, tmp_path)) <= NEWER


def test_a_wrong_offset_is_found(facts, tmp_path):
    """A planted defect: one member too many at the front."""
    text = (INCLUDE / "sp_amdgpu_drm.h").read_text()
    wrong = tmp_path / "wrong.h"
    planted = re.sub(r"(struct drm_amdgpu_info_hw_ip \{)", r"\1 uint32_t planted;", text)
    wrong.write_text(planted.replace('"sp_drm.h"', f'"{INCLUDE}/sp_drm.h"'))
    values = Program(tmp_path, [f'"{wrong}"'], []).values(facts)
    found = theirs("system", facts, tmp_path)
    assert {n for n in found if found[n] != values[n] and "hw_ip." in n and "struct" in n}
