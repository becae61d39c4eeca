/* Minor versions of KMS 3 in which something changed that a program can see here. Sources: the list
 * at the top of Linux amdgpu_drv.c, and for fields that it does not name, the patches that added
 * them. Linux releases: 5.15 has 42, 5.19 47, 6.0 48, 6.1 49, 6.5 and 6.6 54, 6.8 57, 6.11 58 or
 * 59, 6.14 61, 6.15 63, 6.16 64. */
#ifndef SP_EMU_KMD_KMS_H
#define SP_EMU_KMD_KMS_H

enum kmd_kms {
    KMD_KMS_DMA_SYNC = 42,      /* SDMA rings obey EMIT_MEM_SYNC (Linux 5.13) */
    KMD_KMS_STABLE_PSTATE = 45, /* new in CTX: GET_STABLE_PSTATE, SET_STABLE_PSTATE */
    KMD_KMS_NOALLOC = 47,       /* new flags: GEM_CREATE_DISCARDABLE, VM_PAGE_NOALLOC */
    KMD_KMS_DISCOVERY = 48,     /* new in HW_IP_INFO: ip_discovery_version, which was padding */
    /* new in DEV_INFO: min_engine_clock, min_memory_clock; new in INFO SENSOR: PEAK_PSTATE_GFX_SCLK
     * and PEAK_PSTATE_GFX_MCLK */
    KMD_KMS_MIN_CLOCKS = 50,
    KMD_KMS_PCIE = 51,          /* new in DEV_INFO: pcie_gen, pcie_num_lanes, which were padding */
    /* new in DEV_INFO: the fields tcp_cache_size to enabled_rb_pipes_mask_hi, and the flag
     * CONFORMANT_TRUNC_COORD */
    KMD_KMS_CACHES = 52,
    KMD_KMS_SHADOW = 53,        /* new in DEV_INFO: the fields shadow_size to csa_alignment */
    /* new query: INFO MAX_IBS. The patch of April 2023 has no KMS version of its own. Kernel
     * drivers of version 54 have it; earlier ones may. */
    KMD_KMS_MAX_IBS = 54,
    KMD_KMS_FAULT = 55,         /* new query: INFO GPUVM_FAULT */
    KMD_KMS_DCC = 58,           /* new flag: GEM_CREATE_GFX12_DCC */
    /* From this version on, GPU addresses begin at 0x10000, and more of them are reserved at the
     * end. The change came with Linux 6.9, whose kernel driver has a KMS version of at most 58. */
    KMD_KMS_LOW_VA = 58,
    /* new flags: GEM_CREATE_VRAM_WIPE_ON_RELEASE, and those for coherent memory */
    KMD_KMS_WIPE = 59,
    /* From this version on, each new BO in VRAM is filled with zeros. The change came with Linux
     * 6.11, whose kernel driver has a KMS version of at most 59. */
    KMD_KMS_CLEARED = 59,
    KMD_KMS_USERQ = 64,         /* new in DEV_INFO: userq_ip_mask; in HW_IP_INFO: userq_num_slots */
    KMD_KMS_NEWEST = 64,
    KMD_KMS_DEFAULT = 54
};
#endif
