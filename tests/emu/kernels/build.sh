#!/bin/sh
# Builds the code objects beside their sources again; needs clang-19 and lld-19.
set -e
cd "$(dirname "$0")"
for chip in gfx1036 gfx1100; do
    for source in lanes.c groups.cl bench.cl; do
        [ -e "$source" ] || continue
        clang-19 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=$chip -O2 -nogpulib -ffp-contract=off \
            -cl-fp32-correctly-rounded-divide-sqrt -Wno-unknown-pragmas -o "${source%.*}.$chip.hsaco" "$source"
        llvm-strip-19 --strip-unneeded "${source%.*}.$chip.hsaco" 2>/dev/null || true
    done
done
