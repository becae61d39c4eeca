#!/bin/sh
# Builds the code objects beside their sources again; needs clang-19 and lld-19.
set -e
cd "$(dirname "$0")"
for chip in gfx1036 gfx1100; do
    build() { # output, source, flags
        out=$1.$chip.hsaco source=$2
        shift 2
        clang-19 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=$chip -nogpulib -ffp-contract=off \
            -cl-fp32-correctly-rounded-divide-sqrt -Wno-unknown-pragmas "$@" -o "$out" "$source"
        llvm-strip-19 --strip-unneeded "$out"
    }
    build lanes lanes.c -O2
    build lanes64 lanes.c -O1 -mwavefrontsize64
    build groups groups.cl -O2
done
