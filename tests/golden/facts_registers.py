"""Registers typed from sources other than our tables: addresses, levels, fields, known values.

M registers/*.json, P chip/gfx9_plus_merged_offset.h, K gc_10_3_0 and gc_11_0_0 offset headers agree
on the addresses; fields also from R amd_hsa_kernel_code.h. Values: clang 19's descriptors,
measured. K is the kernel, M is Mesa, P is PAL, R is ROCr.
"""

from __future__ import annotations

# name (after COMPUTE_), byte address, SH offset, on gfx9, gfx10.3, gfx11, gfx12
COMPUTE = """
    DISPATCH_INITIATOR          B800 200  y y y y
    DIM_X                       B804 201  y y y y
    DIM_Y                       B808 202  y y y y
    DIM_Z                       B80C 203  y y y y
    START_X                     B810 204  y y y y
    START_Z                     B818 206  y y y y
    NUM_THREAD_X                B81C 207  y y y y
    NUM_THREAD_Z                B824 209  y y y y
    PERFCOUNT_ENABLE            B82C 20B  y y y y
    PGM_LO                      B830 20C  y y y y
    PGM_HI                      B834 20D  y y y y
    DISPATCH_PKT_ADDR_LO        B838 20E  y y y y
    DISPATCH_PKT_ADDR_HI        B83C 20F  y y y y
    DISPATCH_SCRATCH_BASE_LO    B840 210  n y y y
    DISPATCH_SCRATCH_BASE_HI    B844 211  n y y y
    PGM_RSRC1                   B848 212  y y y y
    PGM_RSRC2                   B84C 213  y y y y
    RESOURCE_LIMITS             B854 215  y y y y
    STATIC_THREAD_MGMT_SE0      B858 216  y y y y
    STATIC_THREAD_MGMT_SE1      B85C 217  y y y y
    TMPRING_SIZE                B860 218  y y y y
    STATIC_THREAD_MGMT_SE2      B864 219  y y y y
    STATIC_THREAD_MGMT_SE3      B868 21A  y y y y
    RESTART_X                   B86C 21B  y y y y
    RESTART_Z                   B874 21D  y y y y
    THREAD_TRACE_ENABLE         B878 21E  y y y y
    MISC_RESERVED               B87C 21F  y y y y
    REQ_CTRL                    B888 222  n y y y
    STATIC_THREAD_MGMT_SE8      B88C 223  n n n y
    USER_ACCUM_0                B890 224  n y y y
    USER_ACCUM_3                B89C 227  n y y y
    PGM_RSRC3                   B8A0 228  n y y y
    SHADER_CHKSUM               B8A8 22A  - y y y
    STATIC_THREAD_MGMT_SE4      B8AC 22B  n n y y
    STATIC_THREAD_MGMT_SE5      B8B0 22C  n n y y
    STATIC_THREAD_MGMT_SE6      B8B4 22D  n n y y
    STATIC_THREAD_MGMT_SE7      B8B8 22E  n n y y
    DISPATCH_INTERLEAVE         B8BC 22F  n n y y
    USER_DATA_0                 B900 240  y y y y
    USER_DATA_15                B93C 24F  y y y y
    DISPATCH_TUNNEL             B9F4 27D  n y y y
"""

# Not for users: name, level, byte address
FORBIDDEN = [
    ("COMPUTE_RELAUNCH", 9, 0xB888),
    ("COMPUTE_RELAUNCH", 10, 0xB8AC),
    ("COMPUTE_RELAUNCH", 11, 0xB8C0),
    ("COMPUTE_RELAUNCH", 12, 0xB8C0),
]

# register (after COMPUTE_), field, highest and lowest bit, levels
FIELDS = """
    PGM_LO              DATA                 31 0   9 10 11 12
    PGM_HI              DATA                 7 0    9 10 11 12
    NUM_THREAD_X        FULL                 15 0   9 10 11
    NUM_THREAD_X        FULL                 12 0   12
    NUM_THREAD_Y        INTERLEAVE_BITS      15 13  12
    NUM_THREAD_Z        PARTIAL              31 16  9 10 11 12
    PGM_RSRC1           VGPRS                5 0    9 10 11 12
    PGM_RSRC1           SGPRS                9 6    9 10 11 12
    PGM_RSRC1           PRIORITY             11 10  9 10 11 12
    PGM_RSRC1           FLOAT_MODE           19 12  9 10 11 12
    PGM_RSRC1           PRIV                 20 20  9 10 11 12
    PGM_RSRC1           DX10_CLAMP           21 21  9 10 11
    PGM_RSRC1           WG_RR_EN             21 21  12
    PGM_RSRC1           DEBUG                22 22  9 10 11 12
    PGM_RSRC1           IEEE                 23 23  9 10 11
    PGM_RSRC1           DISABLE_PERF         23 23  12
    PGM_RSRC1           BULKY                24 24  9 10 11 12
    PGM_RSRC1           FP16_OVFL            26 26  9 10 11 12
    PGM_RSRC1           WGP_MODE             29 29  10 11 12
    PGM_RSRC1           MEM_ORDERED          30 30  10 11 12
    PGM_RSRC1           FWD_PROGRESS         31 31  10 11 12
    PGM_RSRC2           SCRATCH_EN           0 0    9 10 11 12
    PGM_RSRC2           USER_SGPR            5 1    9 10 11 12
    PGM_RSRC2           TRAP_PRESENT         6 6    9 10 11
    PGM_RSRC2           DYNAMIC_VGPR         6 6    12
    PGM_RSRC2           TGID_X_EN            7 7    9 10 11 12
    PGM_RSRC2           TGID_Y_EN            8 8    9 10 11 12
    PGM_RSRC2           TGID_Z_EN            9 9    9 10 11 12
    PGM_RSRC2           TG_SIZE_EN           10 10  9 10 11 12
    PGM_RSRC2           TIDIG_COMP_CNT       12 11  9 10 11 12
    PGM_RSRC2           EXCP_EN_MSB          14 13  9 10 11 12
    PGM_RSRC2           LDS_SIZE             23 15  9 10 11 12
    PGM_RSRC2           EXCP_EN              30 24  9 10 11 12
    PGM_RSRC2           WGP_TAKEOVER         31 31  12
    PGM_RSRC3           SHARED_VGPR_CNT      3 0    10
    PGM_RSRC3           INST_PREF_SIZE       9 4    11
    PGM_RSRC3           TRAP_ON_START        10 10  11
    PGM_RSRC3           TRAP_ON_END          11 11  11
    PGM_RSRC3           IMAGE_OP             31 31  11
    PGM_RSRC3           INST_PREF_SIZE       11 4   12
    PGM_RSRC3           GLG_EN               13 13  12
    TMPRING_SIZE        WAVES                11 0   9 10 11 12
    TMPRING_SIZE        WAVESIZE             24 12  9 10
    TMPRING_SIZE        WAVESIZE             26 12  11
    TMPRING_SIZE        WAVESIZE             29 12  12
    RESOURCE_LIMITS     WAVES_PER_SH         9 0    9 10 11 12
    RESOURCE_LIMITS     TG_PER_CU            15 12  9 10 11 12
    RESOURCE_LIMITS     LOCK_THRESHOLD       21 16  9 10 11 12
    RESOURCE_LIMITS     SIMD_DEST_CNTL       22 22  9 10 11 12
    RESOURCE_LIMITS     FORCE_SIMD_DIST      23 23  9 10 11 12
    RESOURCE_LIMITS     CU_GROUP_COUNT       26 24  9 10 11 12
    STATIC_THREAD_MGMT_SE0 SA0_CU_EN         15 0   9 10 11 12
    STATIC_THREAD_MGMT_SE3 SA1_CU_EN         31 16  9 10 11 12
    DISPATCH_INTERLEAVE INTERLEAVE           9 0    11 12
    DISPATCH_INITIATOR  COMPUTE_SHADER_EN    0 0    9 10 11 12
    DISPATCH_INITIATOR  PARTIAL_TG_EN        1 1    9 10 11 12
    DISPATCH_INITIATOR  FORCE_START_AT_000   2 2    9 10 11 12
    DISPATCH_INITIATOR  ORDERED_APPEND_ENBL  3 3    9 10 11 12
    DISPATCH_INITIATOR  USE_THREAD_DIMENSIONS 5 5   9 10 11 12
    DISPATCH_INITIATOR  ORDER_MODE           6 6    9 10 11 12
    DISPATCH_INITIATOR  SCALAR_L1_INV_VOL    10 10  9 10 11 12
    DISPATCH_INITIATOR  VECTOR_L1_INV_VOL    11 11  9 10 11 12
    DISPATCH_INITIATOR  TUNNEL_ENABLE        13 13  10 11 12
    DISPATCH_INITIATOR  RESTORE              14 14  9 10 11 12
    DISPATCH_INITIATOR  CS_W32_EN            15 15  10 11 12
    DISPATCH_INITIATOR  AMP_SHADER_EN        16 16  11 12
    DISPATCH_INITIATOR  DISABLE_DISP_PREMPT_EN 17 17 11 12
"""

# register (after COMPUTE_), level, value, its fields that are not 0; kernels compiled by clang 19
VALUES = [
    ("PGM_RSRC1", 10, 0x60AF0040, {"SGPRS": 1, "FLOAT_MODE": 0xF0, "DX10_CLAMP": 1, "IEEE": 1,
                                   "WGP_MODE": 1, "MEM_ORDERED": 1}),
    ("PGM_RSRC1", 10, 0x60AF0182, {"VGPRS": 2, "SGPRS": 6, "FLOAT_MODE": 0xF0, "DX10_CLAMP": 1,
                                   "IEEE": 1, "WGP_MODE": 1, "MEM_ORDERED": 1}),
    ("PGM_RSRC1", 11, 0x60AF0080, {"SGPRS": 2, "FLOAT_MODE": 0xF0, "DX10_CLAMP": 1, "IEEE": 1,
                                   "WGP_MODE": 1, "MEM_ORDERED": 1}),
    ("PGM_RSRC1", 11, 0x60AF0184, {"VGPRS": 4, "SGPRS": 6, "FLOAT_MODE": 0xF0, "DX10_CLAMP": 1,
                                   "IEEE": 1, "WGP_MODE": 1, "MEM_ORDERED": 1}),
    ("PGM_RSRC2", 11, 0x9F, {"SCRATCH_EN": 1, "USER_SGPR": 15, "TGID_X_EN": 1}),
    ("PGM_RSRC2", 12, 0x84, {"USER_SGPR": 2, "TGID_X_EN": 1}),
    ("PGM_RSRC2", 9, 0x8C, {"USER_SGPR": 6, "TGID_X_EN": 1}),
    ("PGM_RSRC1", 12, 0x600F0000, {"FLOAT_MODE": 0xF0, "WGP_MODE": 1, "MEM_ORDERED": 1}),
    ("PGM_RSRC1", 9, 0x00AF0040, {"SGPRS": 1, "FLOAT_MODE": 0xF0, "DX10_CLAMP": 1, "IEEE": 1}),
    ("PGM_RSRC2", 10, 0x8C, {"USER_SGPR": 6, "TGID_X_EN": 1}),
    ("PGM_RSRC2", 10, 0x91, {"SCRATCH_EN": 1, "USER_SGPR": 8, "TGID_X_EN": 1}),
    ("PGM_RSRC2", 10, 0x138C, {"USER_SGPR": 6, "TGID_X_EN": 1, "TGID_Y_EN": 1, "TGID_Z_EN": 1,
                               "TIDIG_COMP_CNT": 2}),
    ("PGM_RSRC2", 11, 0x9E, {"USER_SGPR": 15, "TGID_X_EN": 1}),
    ("PGM_RSRC2", 11, 0x139A, {"USER_SGPR": 13, "TGID_X_EN": 1, "TGID_Y_EN": 1, "TGID_Z_EN": 1,
                               "TIDIG_COMP_CNT": 2}),
    # 4000 B of LDS are 8 granules of 512 B
    ("PGM_RSRC2", 10, 0x4008C, {"USER_SGPR": 6, "TGID_X_EN": 1, "LDS_SIZE": 8}),
    # 260 B a lane, wave32: 9 units of 1024 B on gfx10.3, 33 of 256 B on gfx11; 64 waves
    ("TMPRING_SIZE", 10, 0x9040, {"WAVES": 64, "WAVESIZE": 9}),
    ("TMPRING_SIZE", 11, 0x21040, {"WAVES": 64, "WAVESIZE": 33}),
]  # fmt: skip

# SET_UCONFIG_REG offset 0x7B is byte 0x301EC (M ac_cmdbuf.c); absent from gfx11 on
UCONFIG = [("CP_COHER_START_DELAY", 0x301EC, 0x7B, (9, 10))]

# Descriptor dwords of kernel "stack" for gfx1036 (clang 19): 260 B of scratch, props 0x0429.
KERNEL_DESCRIPTOR = [0, 260, 24, 0, 0x1000, 0, 0, 0, 0, 0, 0, 0, 0x60AF0182, 0x91, 0x0429, 0]
KERNEL_DESCRIPTOR_FIELDS = {
    "private_segment_fixed_size": 260, "kernarg_size": 24, "kernel_code_entry_byte_offset": 0x1000,
    "compute_pgm_rsrc1": 0x60AF0182, "compute_pgm_rsrc2": 0x91, "properties": {
        "enable_private_segment_buffer": 1, "enable_kernarg_segment_ptr": 1,
        "enable_flat_scratch_init": 1, "enable_wavefront_size32": 1},
}  # fmt: skip
# Word 3 of the scratch resource on gfx10.3, wave32 and wave64 (R FillBufRsrcWord3_Gfx10 + stride).
SCRATCH_WORD3 = {0x21C14FAC: 2, 0x21E14FAC: 3}

# kernel_code_properties of clang 19's kernels, and the user SGPRs they stand for on gfx9 to gfx10.3
PROPERTIES = {
    0x0409: ("private_segment_buffer", "kernarg_segment_ptr", "wavefront_size32"),  # gfx1036
    0x0429: ("private_segment_buffer", "kernarg_segment_ptr", "flat_scratch_init",
             "wavefront_size32"),  # gfx1036 with scratch
    0x0408: ("kernarg_segment_ptr", "wavefront_size32"),  # gfx1100, gfx1201
    0x0009: ("private_segment_buffer", "kernarg_segment_ptr"),  # gfx90a
    0x0008: ("kernarg_segment_ptr",),  # gfx942
}  # fmt: skip
