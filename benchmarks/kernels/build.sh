#!/bin/sh
# Builds the code objects of emu.cl again, with the flags of tests/emu/wave/kernels/build.sh; needs clang-19 and lld-19.
set -e
cd "$(dirname "$0")"
for chip in gfx1036 gfx1100; do
    clang-19 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=$chip -nogpulib -ffp-contract=off \
        -cl-fp32-correctly-rounded-divide-sqrt -O2 -o emu.$chip.hsaco emu.cl
    llvm-strip-19 --strip-unneeded emu.$chip.hsaco
done
