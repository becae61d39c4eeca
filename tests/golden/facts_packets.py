"""Dwords typed from sources other than our tables, with where they are from: the judge of both.

K is the kernel (drivers/gpu/drm/amd), M is Mesa (src/amd), P is PAL, T is tinygrad, R is ROCr.
Where a row says "derived", the dword was put together by hand from the positions those sources
give.
"""

from __future__ import annotations

# name, opcode: K nvd.h and soc15d.h, M common/sid.h, P gfx9_plus_merged_pm4_it_opcodes.h
OPCODES = {
    "NOP": 0x10, "SET_BASE": 0x11, "CLEAR_STATE": 0x12, "DISPATCH_DIRECT": 0x15,
    "DISPATCH_INDIRECT": 0x16, "ATOMIC_MEM": 0x1E, "COND_EXEC": 0x22, "PRED_EXEC": 0x23,
    "CONTEXT_CONTROL": 0x28, "WRITE_DATA": 0x37, "WAIT_REG_MEM": 0x3C, "INDIRECT_BUFFER": 0x3F,
    "COPY_DATA": 0x40, "PFP_SYNC_ME": 0x42, "EVENT_WRITE": 0x46, "RELEASE_MEM": 0x49,
    "DMA_DATA": 0x50, "ACQUIRE_MEM": 0x58, "LOAD_SH_REG_INDEX": 0x63, "SET_CONTEXT_REG": 0x69,
    "SET_SH_REG": 0x76, "SET_UCONFIG_REG": 0x79, "SET_UCONFIG_REG_INDEX": 0x7A,
    "FRAME_CONTROL": 0x90, "WAIT_REG_MEM64": 0x93, "HDP_FLUSH": 0x95, "INVALIDATE_TLBS": 0x98,
    "SET_SH_REG_INDEX": 0x9B, "TIMESTAMP": 0xB2, "SET_CONTEXT_REG_PAIRS": 0xB8,
    "SET_CONTEXT_REG_PAIRS_PACKED": 0xB9, "SET_SH_REG_PAIRS": 0xBA,
    "SET_SH_REG_PAIRS_PACKED": 0xBB, "SET_SH_REG_PAIRS_PACKED_N": 0xBD,
    "SET_Q_PREEMPTION_MODE": 0xF0,
}  # fmt: skip

HI = 0xFFFF8000  # upper half of an address with bit 47

# levels, queue, dwords, packet, fields that are not as an empty packet has them, source
PACKETS = [
    ((9, 10, 11, 12), "compute", "FFFF1000", "NOP", {}, "K ring->funcs->nop, M PKT3_NOP_PAD"),
    ((10, 11), "compute", "C0065800 0 FFFFFFFF 00FFFFFF 0 0 A C3F1", "ACQUIRE_MEM",
     {"gcr": {"gli_inv": 1, "glm_wb": 1, "glm_inv": 1, "glk_wb": 1, "glk_inv": 1, "glv_inv": 1,
              "gl1_inv": 1, "gl2_inv": 1, "gl2_wb": 1}}, "T acquire_mem; derived from K nvd.h:269"),
    ((10, 11), "compute", "C0065800 0 FFFFFFFF 00FFFFFF 0 0 A C3B1", "ACQUIRE_MEM",
     {"gcr": {"gli_inv": 1, "glm_wb": 1, "glm_inv": 1, "glk_inv": 1, "glv_inv": 1, "gl1_inv": 1,
              "gl2_inv": 1, "gl2_wb": 1}}, "K gfx_v10_0.c emit_mem_sync"),
    ((11,), "gfx", "C0065800 00022000 FFFFFFFF 01FFFFFF 0 0 80000000 00010000", "ACQUIRE_MEM",
     {"pws": {"stage_sel": 4, "ena2": 1}, "size_hi": {"value": 0x1FFFFFF},
      "poll": {"interval": 0, "pws_ena": 1}, "gcr": {"seq": 1}}, "M pixel wait sync (capture)"),
    ((10, 11), "compute", "C0064900 06603514 40000000 00001000 0 7 0 0", "RELEASE_MEM",
     {"event": {"type": 0x14, "index": 5, "glm_wb": 1, "glm_inv": 1, "gl2_wb": 1, "seq": 1,
                "policy": 3}, "select": {"data": 2}, "addr": 0x1000, "value": 7},
     "K gfx_v10_0.c:8544 and gfx_v11_0.c:5605, the kernel's fence"),
    ((11,), "gfx", "C0064900 80000528 0 0 0 0 0 0", "RELEASE_MEM",
     {"event": {"type": 0x28, "index": 5, "pws_enable": 1}}, "M radv_queue.c (capture)"),
    ((10, 11), "gfx", "C0064900 00703514 23000000 000C1004 FFFF8000 1 0 0", "RELEASE_MEM",
     {"event": {"type": 0x14, "index": 5, "glm_wb": 1, "glm_inv": 1, "gl2_inv": 1, "gl2_wb": 1,
                "seq": 1}, "select": {"intr": 3, "data": 1}, "addr": HI << 32 | 0xC1004,
      "value": 1}, "M RADV (capture)"),
    ((9, 10, 11), "compute", "C0004600 00000407", "EVENT_WRITE",
     {"event": {"type": 7, "index": 4}}, "CS_PARTIAL_FLUSH: P, M, T"),
    ((9, 10, 11), "compute", "C0033700 00100500 00001000 FFFF8000 DEADBEEF", "WRITE_DATA",
     {"control": {"dst_sel": 5, "wr_confirm": 1}, "addr": HI << 32 | 0x1000,
      "values": [0xDEADBEEF]}, "derived from P mec_pm4_packets.h"),
    ((10, 11), "gfx", "C0043700 40100500 000C1004 FFFF8000 0 0", "WRITE_DATA",
     {"control": {"dst_sel": 5, "wr_confirm": 1, "engine": 1}, "addr": HI << 32 | 0xC1004,
      "values": [0, 0]}, "M RADV (capture)"),
    ((9, 10, 11), "compute", "C0044000 00110209 0 0 2000 0", "COPY_DATA",
     {"control": {"src_sel": 9, "dst_sel": 2, "count_sel": 1, "wr_confirm": 1}, "dst": 0x2000},
     "GPU clock to memory: derived from P"),
    ((9, 10, 11), "compute", "C0053C00 15 2000 0 5 FFFFFFFF 4", "WAIT_REG_MEM",
     {"control": {"function": 5, "mem_space": 1}, "addr": 0x2000, "reference": 5},
     "memory >=: derived from M sid.h, P"),
    ((9, 10, 11), "compute", "C0023F00 00015000 FFFF8001 008000B0", "INDIRECT_BUFFER",
     {"addr": 0xFFFF8001_00015000, "control": {"ndw": 0xB0, "valid": 1}}, "derived from P"),
    ((10, 11), "gfx", "C0012800 80000000 80000000", "CONTEXT_CONTROL",
     {"load": {"update_enables": 1}, "shadow": {"update_enables": 1}}, "M, K (capture)"),
    ((10, 11), "gfx", "C0001200 0", "CLEAR_STATE", {}, "M (capture)"),
    ((10, 11), "gfx", "C0004200 0", "PFP_SYNC_ME", {}, "M (capture)"),
    ((10, 11), "compute", "C0055000 60200000 00050D00 FFFF8000 00050D00 FFFF8000 80000160",
     "DMA_DATA", {"control": {"src_sel": 3, "dst_sel": 2}, "src": HI << 32 | 0x50D00,
                  "dst": HI << 32 | 0x50D00, "command": {"byte_count": 0x160, "dis_wc": 1}},
     "M RADV, prefetch into L2 (capture)"),
    ((10, 11), "compute", "C0055000 60300000 00030000 FFFF8001 00040000 FFFF8001 C0000FA0",
     "DMA_DATA", {"control": {"src_sel": 3, "dst_sel": 3}, "src": 0xFFFF8001_00030000,
                  "dst": 0xFFFF8001_00040000,
                  "command": {"byte_count": 4000, "raw_wait": 1, "dis_wc": 1}},
     "M RADV, a copy of 1000 floats (capture)"),
    ((10, 11), "compute", "C0055000 80200000 0 0 0 0 0", "DMA_DATA",
     {"control": {"cp_sync": 1, "dst_sel": 2}}, "M RADV, waits for copies (capture)"),
    ((9, 10, 11), "compute", "C0031500 10 1 1 45", "DISPATCH_DIRECT",
     {"dim_x": 16, "dim_y": 1, "dim_z": 1, "initiator": {
         "COMPUTE_SHADER_EN": 1, "FORCE_START_AT_000": 1, "ORDER_MODE": 1}}, "M RADV, wave64"),
    ((10, 11), "gfx", "C0031502 10 1 1 8005", "DISPATCH_DIRECT",
     {"header": {"shader_type": 1}, "dim_x": 16, "dim_y": 1, "dim_z": 1, "initiator": {
         "COMPUTE_SHADER_EN": 1, "FORCE_START_AT_000": 1, "CS_W32_EN": 1}}, "P; wave32"),
    ((9, 10, 11), "compute", "C0021600 2000 0 5", "DISPATCH_INDIRECT",
     {"addr": 0x2000, "initiator": {"COMPUTE_SHADER_EN": 1, "FORCE_START_AT_000": 1}},
     "P, MEC"),
    ((9, 10, 11), "compute", "C0017600 20C 50D", "SET_SH_REG",
     {"reg": {"offset": 0x20C}, "values": [0x50D]}, "one register: derived"),
    ((9, 10, 11), "compute", "C0037600 207 40 1 1", "SET_SH_REG",
     {"reg": {"offset": 0x207}, "values": [64, 1, 1]}, "three registers: derived"),
    ((9, 10), "compute", "C0017900 7B 20", "SET_UCONFIG_REG",
     {"reg": {"offset": 0x7B}, "values": [0x20]}, "M ac_cmdbuf.c, CP_COHER_START_DELAY"),
    ((11,), "gfx", "C004B904 2 00000010 1 2 3", "SET_CONTEXT_REG_PAIRS_PACKED", None,
     "not well formed: four body dwords hold no whole triple"),
    ((11,), "gfx", "C003B904 2 00020001 AA BB", "SET_CONTEXT_REG_PAIRS_PACKED",
     {"header": {"reset_filter_cam": 1}, "count": 2, "triples": [0x20001, 0xAA, 0xBB]},
     "M sid.h, format of the packed packets"),
    ((9, 10, 11), "gfx", "C0071E00 148 2000 0 1 0 0 0 A", "ATOMIC_MEM",
     {"control": {"op": 0x48, "command": 1}, "addr": 0x2000, "source": 1, "loop": {"interval": 10}},
     "M radv_queue.c, the perf counter lock"),
    ((9,), "compute", "C0055800 0 FFFFFFFF FF 0 0 A", "ACQUIRE_MEM_GFX9", {}, "K soc15d.h"),
]  # fmt: skip

SDMA = [
    ((10, 11), "1 FFF 0 1000 0 2000 FFFF8000", "COPY_LINEAR",
     {"count": {"bytes": 4096}, "src": 0x1000, "dst": HI << 32 | 0x2000}, "K sdma_v5_2.c"),
    ((10, 11), "2 1000 0 1 AA BB", "WRITE",
     {"addr": 0x1000, "count": {"ndw": 2}, "values": [0xAA, 0xBB]}, "K sdma_v5_2.c"),
    ((10, 11), "30005 1000 0 7", "FENCE",
     {"header": {"mtype": 3}, "addr": 0x1000, "value": 7}, "K sdma_v5_2.c, MTYPE UC"),
    ((9,), "5 1000 0 7", "FENCE", {"addr": 0x1000, "value": 7}, "K sdma_v4_0.c"),
    ((10, 11), "D0000008 1000 0 7 FFFFFFFF 0FFF000A", "POLL_REGMEM",
     {"header": {"function": 5, "mem": 1}, "addr": 0x1000, "value": 7,
      "poll": {"retry": 0xFFF, "interval": 10}}, "K sdma_v5_2.c, >= in memory"),
    ((10, 11), "8000000B 1000 0 DEADBEEF FFF", "CONST_FILL",
     {"header": {"fillsize": 2}, "addr": 0x1000, "value": 0xDEADBEEF, "count": {"bytes": 4096}},
     "M radv_sdma.c"),
    ((10, 11), "20D 1000 0", "TIMESTAMP", {"addr": 0x1000}, "K, R sdma_registers.h"),
    ((10, 11), "11 0 C3B10000 0 0", "GCR_REQ", {"base_hi": {"gcr": 0xC3B1}}, "K sdma_v5_2.c:262"),
    ((10, 11), "111 0 C3800000 0 0", "USER_GCR", {"base_hi": {"gcr": 0xC380}},
     "R sdma_registers.h: SDMA_SUBOP_USER_GCR, SDMA_PKT_GCR"),
    ((9, 10, 11), "0", "NOP", {}, "K"),
    ((9, 10, 11), "20000 0 0", "NOP", {"payload": [0, 0]}, "K, count in [29:16]"),
]  # fmt: skip

# One dispatch of wave32 on a COMPUTE queue, as levels -> rows of dwords; `derived` from K, M, P, T.
DISPATCH_IB = {
    10: [
        "C0065800 0 FFFFFFFF 00FFFFFF 0 0 A C3F1", "C0017900 7B 20",
        "C0027600 216 FFFFFFFF 0", "C0027600 219 0 0", "C0047600 224 0 0 0 0", "C0017600 27D 0",
        "C0027600 20C 12345 0", "C0027600 212 60AF0040 8C", "C0017600 228 0", "C0017600 215 0",
        "C0017600 218 0", "C0067600 204 0 0 0 40 1 1", "C0067600 240 1 2 3 4 5 6",
        "C0031500 2 1 1 8005", "C0004600 407",
    ],
    11: [
        "C0065800 0 FFFFFFFF 00FFFFFF 0 0 A C3F1", "C0027600 216 FFFFFFFF FFFFFFFF",
        "C0027600 219 FFFFFFFF FFFFFFFF", "C0047600 22B FFFFFFFF FFFFFFFF 0 0",
        "C0017600 22F 40", "C0047600 224 0 0 0 0", "C0017600 27D 0", "C0027600 20C 12345 0",
        "C0027600 212 60AF0080 9E", "C0017600 228 0", "C0017600 215 0", "C0017600 218 0",
        "C0067600 204 0 0 0 40 1 1", "C0027600 240 1 2", "C0031500 2 1 1 8005", "C0004600 407",
    ],
}  # fmt: skip
# The same in names; START and NUM_THREAD are six neighbours, STATIC_THREAD_MGMT has gaps.
DISPATCH_REGISTERS = {
    10: {
        "STATIC_THREAD_MGMT_SE0": 0xFFFFFFFF, "STATIC_THREAD_MGMT_SE1": 0,
        "STATIC_THREAD_MGMT_SE2": 0, "STATIC_THREAD_MGMT_SE3": 0, "USER_ACCUM_0": 0,
        "USER_ACCUM_1": 0, "USER_ACCUM_2": 0, "USER_ACCUM_3": 0, "DISPATCH_TUNNEL": 0,
        "PGM_LO": 0x12345, "PGM_HI": 0, "PGM_RSRC1": 0x60AF0040, "PGM_RSRC2": 0x8C, "PGM_RSRC3": 0,
        "RESOURCE_LIMITS": 0, "TMPRING_SIZE": 0, "START_X": 0, "START_Y": 0, "START_Z": 0,
        "NUM_THREAD_X": 64, "NUM_THREAD_Y": 1, "NUM_THREAD_Z": 1,
        **{f"USER_DATA_{i}": i + 1 for i in range(6)},
    },
    11: {
        **{f"STATIC_THREAD_MGMT_SE{n}": 0xFFFFFFFF if n < 6 else 0 for n in range(8)},
        "DISPATCH_INTERLEAVE": 0x40, "USER_ACCUM_0": 0, "USER_ACCUM_1": 0, "USER_ACCUM_2": 0,
        "USER_ACCUM_3": 0, "DISPATCH_TUNNEL": 0, "PGM_LO": 0x12345, "PGM_HI": 0,
        "PGM_RSRC1": 0x60AF0080, "PGM_RSRC2": 0x9E, "PGM_RSRC3": 0, "RESOURCE_LIMITS": 0,
        "TMPRING_SIZE": 0, "START_X": 0, "START_Y": 0, "START_Z": 0, "NUM_THREAD_X": 64,
        "NUM_THREAD_Y": 1, "NUM_THREAD_Z": 1, "USER_DATA_0": 1, "USER_DATA_1": 2,
    },
}  # fmt: skip

# Packet, field (element.field), dword counted from the header, highest and lowest bit. P
# *_f32_mec_pm4_packets.h, M registers/pkt3.json, K nvd.h:166-306.
PLACES = """
    SET_SH_REG          reg.offset            1  15 0
    SET_SH_REG          reg.vmid_shift        1  27 23
    SET_SH_REG          reg.index             1  31 28
    DISPATCH_DIRECT     dim_x                 1  31 0
    DISPATCH_DIRECT     dim_z                 3  31 0
    DISPATCH_DIRECT     initiator.CS_W32_EN   4  15 15
    DISPATCH_INDIRECT   addr                  1  63 0
    EVENT_WRITE         event.type            1  5 0
    EVENT_WRITE         event.index           1  11 8
    WRITE_DATA          control.dst_sel       1  11 8
    WRITE_DATA          control.addr_incr     1  16 16
    WRITE_DATA          control.wr_confirm    1  20 20
    WRITE_DATA          control.policy        1  26 25
    WRITE_DATA          control.engine        1  31 30
    WRITE_DATA          addr                  2  63 0
    WRITE_DATA          values[0]             4  31 0
    COPY_DATA           control.src_sel       1  3 0
    COPY_DATA           control.dst_sel       1  11 8
    COPY_DATA           control.src_policy    1  14 13
    COPY_DATA           control.count_sel     1  16 16
    COPY_DATA           control.wr_confirm    1  20 20
    COPY_DATA           control.dst_policy    1  26 25
    COPY_DATA           src                   2  63 0
    COPY_DATA           dst                   4  63 0
    DMA_DATA            control.src_policy    1  14 13
    DMA_DATA            control.dst_sel       1  21 20
    DMA_DATA            control.dst_policy    1  26 25
    DMA_DATA            control.src_sel       1  30 29
    DMA_DATA            control.cp_sync       1  31 31
    DMA_DATA            src                   2  63 0
    DMA_DATA            dst                   4  63 0
    DMA_DATA            command.byte_count    6  25 0
    DMA_DATA            command.sas           6  26 26
    DMA_DATA            command.das           6  27 27
    DMA_DATA            command.saic          6  28 28
    DMA_DATA            command.daic          6  29 29
    DMA_DATA            command.raw_wait      6  30 30
    DMA_DATA            command.dis_wc        6  31 31
    WAIT_REG_MEM        control.function      1  2 0
    WAIT_REG_MEM        control.mem_space     1  5 4
    WAIT_REG_MEM        control.operation     1  7 6
    WAIT_REG_MEM        control.engine        1  8 8
    WAIT_REG_MEM        addr                  2  63 0
    WAIT_REG_MEM        reference             4  31 0
    WAIT_REG_MEM        mask                  5  31 0
    INDIRECT_BUFFER     addr                  1  63 0
    INDIRECT_BUFFER     control.ndw           3  19 0
    INDIRECT_BUFFER     control.chain         3  20 20
    INDIRECT_BUFFER     control.valid         3  23 23
    INDIRECT_BUFFER     control.vmid          3  27 24
    INDIRECT_BUFFER     control.policy        3  29 28
    ACQUIRE_MEM         size_lo               2  31 0
    ACQUIRE_MEM         gcr.gli_inv           7  1 0
    ACQUIRE_MEM         gcr.gl1_range         7  3 2
    ACQUIRE_MEM         gcr.glm_wb            7  4 4
    ACQUIRE_MEM         gcr.glm_inv           7  5 5
    ACQUIRE_MEM         gcr.glk_wb            7  6 6
    ACQUIRE_MEM         gcr.glk_inv           7  7 7
    ACQUIRE_MEM         gcr.glv_inv           7  8 8
    ACQUIRE_MEM         gcr.gl1_inv           7  9 9
    ACQUIRE_MEM         gcr.gl2_us            7  10 10
    ACQUIRE_MEM         gcr.gl2_range         7  12 11
    ACQUIRE_MEM         gcr.gl2_discard       7  13 13
    ACQUIRE_MEM         gcr.gl2_inv           7  14 14
    ACQUIRE_MEM         gcr.gl2_wb            7  15 15
    ACQUIRE_MEM         gcr.seq               7  17 16
    ACQUIRE_MEM         gcr.range_is_pa       7  18 18
    RELEASE_MEM         event.type            1  5 0
    RELEASE_MEM         event.index           1  11 8
    RELEASE_MEM         event.glm_wb          1  12 12
    RELEASE_MEM         event.glm_inv         1  13 13
    RELEASE_MEM         event.glv_inv         1  14 14
    RELEASE_MEM         event.gl1_inv         1  15 15
    RELEASE_MEM         event.gl2_us          1  16 16
    RELEASE_MEM         event.gl2_range       1  18 17
    RELEASE_MEM         event.gl2_discard     1  19 19
    RELEASE_MEM         event.gl2_inv         1  20 20
    RELEASE_MEM         event.gl2_wb          1  21 21
    RELEASE_MEM         event.seq             1  23 22
    RELEASE_MEM         event.glk_wb          1  24 24
    RELEASE_MEM         event.policy          1  26 25
    RELEASE_MEM         event.execute         1  28 28
    RELEASE_MEM         event.glk_inv         1  30 30
    RELEASE_MEM         event.pws_enable      1  31 31
    RELEASE_MEM         select.dst            2  17 16
    RELEASE_MEM         select.intr           2  26 24
    RELEASE_MEM         select.data           2  31 29
    RELEASE_MEM         addr                  3  63 0
    RELEASE_MEM         value                 5  63 0
    RELEASE_MEM         ctxid                 7  31 0
"""
