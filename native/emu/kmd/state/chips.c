/* The chips, as INFO describes them. Each is a commercial product.
 *
 * gfx1030, gfx1033, gfx1036, gfx1100 and gfx1150 answer as cards did: Mesa's
 * src/amd/drm-shim/amdgpu_devices.c has the replies. The reply for gfx1030 is that of an RX 6800;
 * the numbers of units and the clocks are those of an RX 6800 XT.
 *
 * No replies of gfx1035, gfx1102 and gfx1103 are known. Their units, engines, device and PCI
 * revision come from kernel logs of such machines. Family and external_rev come from Linux nv.c and
 * soc21.c, caches from kfd_crat.c, clocks and memory from publications. A clock of 0 is not a gap:
 * real kernel drivers report 0 for APUs. A chip has as many SDMA rings as Linux has SDMA instances.
 *
 * These values have no source and are chosen: the disabled units of an RX 6800 XT; GB_ADDR_CONFIG
 * of gfx1035, gfx1102 and gfx1103, after chips with as many pipes and packers; the num_tcc_blocks
 * of these three; firmware of gfx1035 (as gfx1033) and gfx1102 (as gfx1100); RLC and SDMA firmware
 * of most. */
#include "state.h"

#include <string.h>

#define VERSION(major, minor, revision) ((major) << 16 | (minor) << 8 | (revision))
#define MEMORY(vram_mib, gtt_mib)                                                                 \
    .vram_nbytes = UINT64_C(vram_mib) << 20, .visible_nbytes = UINT64_C(vram_mib) << 20,          \
    .gtt_nbytes = UINT64_C(gtt_mib) << 20
/* a chip has 8 compute rings, but a context uses only 4 of them */
#define RINGS(dma) .compute_rings = 4, .dma_rings = dma
#define FIRMWARE(feature, me_, pfp_, mec_, rlc_, sdma_) \
    .cp_feature = feature, .me = me_, .pfp = pfp_, .mec = mec_, .rlc = rlc_, .sdma = sdma_

/* Facts that are the same on every chip of both generations. kmd_chip_of_kernel sets those that
 * depend on the KMS version. */
#define COMMON                                                                                                       \
    .gpu_counter_freq = 100000, .num_hw_gfx_contexts = 8, .pcie_gen = 4, .pcie_num_lanes = 16,                       \
    .virtual_address_max = UINT64_C(0x800000000000), .virtual_address_alignment = 4096, .pte_fragment_size = 2 << 20, \
    .gart_page_size = 4096, .high_va_offset = UINT64_C(0xffff800000000000), .wave_front_size = 32,                   \
    .gs_vgt_table_depth = 32, .gs_prim_buffer_depth = 1792, .max_gs_waves_per_vgt = 32
/* No version of the kernel driver reports cache sizes of gfx10.3, because the discovery tables of
 * gfx10.3 have none. */
#define GFX10_3 COMMON, .ce_ram_size = 65536, .gc_double_offchip_lds_buf = 1, .num_shader_visible_vgprs = 1024
#define GFX11(vgprs, l2_kib)                                                                                        \
    COMMON, .num_shader_visible_vgprs = vgprs, .tcp_cache_size = 32, .num_sqc_per_wgp = 1, .sqc_data_cache_size = 16, \
    .sqc_inst_cache_size = 32, .gl1c_cache_size = 256, .gl2c_cache_size = l2_kib
/* The flags lack GANG_SUBMIT, because the emulator refuses gangs (submissions with IBs for several
 * entities). */
#define APU .ids_flags = AMDGPU_IDS_FLAGS_FUSION
#define ENGINES(se, sa, cus) .num_shader_engines = se, .num_shader_arrays_per_engine = sa, .num_cu_per_sh = cus
#define BACKENDS(count, mask, tccs) .num_rb_pipes = count, .enabled_rb_pipes_mask = mask, .num_tcc_blocks = tccs
#define CLOCKS(engine_min, engine_max, memory_min, memory_max)                                                     \
    .min_engine_clock = (engine_min) * 1000, .max_engine_clock = (engine_max) * 1000,                              \
    .min_memory_clock = (memory_min) * 1000, .max_memory_clock = (memory_max) * 1000

static const struct kmd_chip chips[] = {
    {
        .core.name = "gfx1030", /* RX 6800 XT */
        MEMORY(16368, 15971), RINGS(2), FIRMWARE(42, 64, 95, 104, 1, 83), .gb_addr_config = 0x444,
        .gfx_version = VERSION(10, 3, 0), .dma_version = VERSION(5, 2, 0),
        .info = {
            GFX10_3, ENGINES(4, 2, 10), BACKENDS(16, 0xffff, 16), CLOCKS(500, 2250, 96, 1000),
            .device_id = 0x73bf, .chip_rev = 1, .external_rev = 0x29, .pci_rev = 0xc1, .family = AMDGPU_FAMILY_NV,
            .cu_bitmap = {{0x3ff, 0x3cf}, {0x33f, 0x3ff}, {0x3ff, 0x3fc}, {0x0ff, 0x3ff}},
            .vram_type = AMDGPU_VRAM_TYPE_GDDR6, .vram_bit_width = 256, .mall_size = UINT64_C(128) << 20,
        },
    },
    {
        .core.name = "gfx1033", /* Steam Deck */
        MEMORY(1024, 8128), RINGS(1), FIRMWARE(41, 64, 95, 98, 1, 9), .gb_addr_config = 0x142,
        .gfx_version = VERSION(10, 3, 1), .dma_version = VERSION(5, 2, 1),
        .info = {
            GFX10_3, APU, ENGINES(1, 1, 8), BACKENDS(2, 3, 4),
            .device_id = 0x163f, .external_rev = 1, .pci_rev = 0xae, .family = AMDGPU_FAMILY_VGH, .cu_bitmap = {{0xff}},
            .vram_type = AMDGPU_VRAM_TYPE_DDR5, .vram_bit_width = 256,
        },
    },
    {
        .core.name = "gfx1035", /* Radeon 680M */
        MEMORY(512, 15360), RINGS(1), FIRMWARE(41, 64, 95, 98, 1, 9), .gb_addr_config = 0x242,
        .gfx_version = VERSION(10, 3, 3), .dma_version = VERSION(5, 2, 5),
        .info = {
            GFX10_3, APU, ENGINES(1, 2, 6), BACKENDS(4, 0xf, 4), CLOCKS(200, 2200, 0, 0),
            .device_id = 0x1681, .chip_rev = 1, .external_rev = 0x20, .pci_rev = 0xc7, .family = AMDGPU_FAMILY_YC,
            .cu_bitmap = {{0x3f, 0x3f}}, .vram_type = AMDGPU_VRAM_TYPE_DDR5, .vram_bit_width = 128,
        },
    },
    {
        .core.name = "gfx1036", /* the GPU of a Ryzen 7000 */
        MEMORY(512, 15360), RINGS(1), FIRMWARE(38, 13, 13, 18, 1, 9), .gb_addr_config = 0x42,
        .gfx_version = VERSION(10, 3, 6), .dma_version = VERSION(5, 2, 6),
        .info = {
            GFX10_3, APU, ENGINES(1, 1, 2), BACKENDS(1, 1, 2), CLOCKS(200, 200, 2400, 2400),
            .device_id = 0x164e, .chip_rev = 1, .external_rev = 2, .pci_rev = 0xc1, .family = AMDGPU_FAMILY_GC_10_3_6,
            .cu_bitmap = {{3}}, .vram_type = AMDGPU_VRAM_TYPE_DDR5, .vram_bit_width = 128,
        },
    },
    {
        .core.name = "gfx1100", /* RX 7900 XTX */
        MEMORY(24560, 31714), RINGS(2), FIRMWARE(29, 1486, 1525, 494, 116, 21), .gb_addr_config = 0x545,
        .gfx_version = VERSION(11, 0, 0), .dma_version = VERSION(6, 0, 0),
        .info = {
            GFX11(1536, 6144), ENGINES(6, 2, 8), BACKENDS(24, 0xffffff, 24), CLOCKS(500, 2371, 96, 1249),
            .device_id = 0x744c, .external_rev = 1, .pci_rev = 0xc8, .family = AMDGPU_FAMILY_GC_11_0_0,
            /* row i is shader engine i, with its two arrays in columns 0 and 1. Engines 4 and 5
             * have no row: they are in columns 2 and 3 of rows 0 and 1. */
            .cu_bitmap = {{0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff}, {0xff, 0xff}, {0xff, 0xff}},
            .vram_type = AMDGPU_VRAM_TYPE_GDDR6, .vram_bit_width = 384, .mall_size = UINT64_C(96) << 20,
        },
    },
    {
        .core.name = "gfx1102", /* RX 7600 */
        MEMORY(8176, 15971), RINGS(2), FIRMWARE(29, 1486, 1525, 494, 116, 21), .gb_addr_config = 0x343,
        .gfx_version = VERSION(11, 0, 2), .dma_version = VERSION(6, 0, 2),
        .info = {
            GFX11(1024, 2048), ENGINES(2, 2, 8), BACKENDS(8, 0xff, 8), CLOCKS(500, 2655, 96, 1125),
            .device_id = 0x7480, .external_rev = 0x10, .pci_rev = 0xcf, .family = AMDGPU_FAMILY_GC_11_0_0,
            .cu_bitmap = {{0xff, 0xff}, {0xff, 0xff}}, .vram_type = AMDGPU_VRAM_TYPE_GDDR6, .vram_bit_width = 128,
            .mall_size = UINT64_C(32) << 20,
        },
    },
    {
        .core.name = "gfx1103", /* Radeon 780M */
        MEMORY(512, 15360), RINGS(1), FIRMWARE(35, 99, 103, 67, 138, 23), .gb_addr_config = 0x242,
        .gfx_version = VERSION(11, 0, 1), .dma_version = VERSION(6, 0, 1),
        .info = {
            GFX11(1024, 2048), APU, ENGINES(1, 2, 6), BACKENDS(4, 0xf, 4), CLOCKS(800, 2700, 0, 0),
            .device_id = 0x15bf, .external_rev = 1, .pci_rev = 0xc2, .family = AMDGPU_FAMILY_GC_11_0_1,
            .cu_bitmap = {{0x3f, 0x3f}}, .vram_type = AMDGPU_VRAM_TYPE_DDR5, .vram_bit_width = 128,
        },
    },
    {
        .core.name = "gfx1150", /* Radeon 890M */
        MEMORY(512, 15724), RINGS(1), FIRMWARE(35, 29, 39, 24, 1, 14), .gb_addr_config = 0x242,
        .gfx_version = VERSION(11, 5, 0), .dma_version = VERSION(6, 1, 0),
        .info = {
            GFX11(1024, 2048), ENGINES(1, 2, 8), BACKENDS(4, 0xf, 4), CLOCKS(600, 2900, 400, 937),
            .ids_flags = AMDGPU_IDS_FLAGS_FUSION | AMDGPU_IDS_FLAGS_CONFORMANT_TRUNC_COORD, .device_id = 0x150e,
            .chip_rev = 1, .external_rev = 0x11, .pci_rev = 0xd1, .family = AMDGPU_FAMILY_GC_11_5_0,
            .cu_bitmap = {{0xff, 0xff}}, .vram_type = AMDGPU_VRAM_TYPE_LPDDR5, .vram_bit_width = 128,
        },
    },
};
enum { CHIPS = sizeof chips / sizeof *chips };

const char *kmd_chip_name(uint32_t i)
{
    return i < CHIPS ? chips[i].core.name : NULL;
}

const struct kmd_chip *kmd_chip(const char *name, size_t length)
{
    for (size_t i = 0; i < CHIPS; i++)
        if (strlen(chips[i].core.name) == length && memcmp(chips[i].core.name, name, length) == 0)
            return &chips[i];
    return NULL;
}

void kmd_chip_of_kernel(struct kmd_chip *chip, uint32_t kms_minor)
{
    struct drm_amdgpu_info_device *info = &chip->info;
    /* AMDGPU_VA_RESERVED_*: the kernel driver reserves 2 MiB at either end of the address space.
     * From KMD_KMS_LOW_VA on, it reserves 64 KiB at the lower end, and CSA, SEQ64 and trap handler
     * at the upper end. A BC-250 on Linux 6.18 reports ...ffbf0000 as high_va_max. */
    info->virtual_address_offset = kms_minor < KMD_KMS_LOW_VA ? 0x200000 : 0x10000;
    info->high_va_max = kms_minor < KMD_KMS_LOW_VA  ? UINT64_C(0xffffffffffe00000)
                        : kms_minor < KMD_KMS_USERQ ? UINT64_C(0xffffffffffbfe000)
                                                    : UINT64_C(0xffffffffffbf0000);
    if (kms_minor < KMD_KMS_PCIE)
        info->pcie_gen = info->pcie_num_lanes = 0;
    if (kms_minor < KMD_KMS_CACHES)
        info->ids_flags &= ~(uint64_t)AMDGPU_IDS_FLAGS_CONFORMANT_TRUNC_COORD;
}
