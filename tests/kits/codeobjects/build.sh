#!/bin/sh
# Builds the code objects beside their source again; needs clang-19 and lld-19.
set -e
cd "$(dirname "$0")"
build() { # code object version, target
    clang-19 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu="$2" -mcode-object-version="$1" -O2 -nogpulib \
        -Wno-everything --ld-path=/usr/bin/ld.lld-19 -o "features.v$1.$2.hsaco" features.cl
    chmod 644 "features.v$1.$2.hsaco"
}
build 4 gfx1036
build 5 gfx1036
build 5 gfx1100
build 6 gfx10-3-generic
build 6 gfx11-generic
build 5 gfx90a
