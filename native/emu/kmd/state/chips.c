/* The chips, as INFO describes them. Sources: what RADV was seen to ask of these two and needs (device and family numbers,
 * firmware versions, GB_ADDR_CONFIG, CU counts, address ranges), public rocminfo dumps (gfx1036: 2 CUs, caches, clocks), the
 * kernel's sources (IP versions, address space). Clocks, caches and render backends of gfx1100 are the board's published
 * figures; nothing here was read off a card. */
#include "state.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define VERSION(major, minor, revision) ((major) << 16 | (minor) << 8 | (revision))

/* 48 bits, the hole in the middle, 2 MiB kept back at either end. */
#define ADDRESSES                                                                                          \
    .virtual_address_offset = 0x200000, .virtual_address_max = UINT64_C(0x800000000000),                   \
    .virtual_address_alignment = 4096, .pte_fragment_size = 2 << 20, .gart_page_size = 4096,               \
    .high_va_offset = UINT64_C(0xffff800000000000), .high_va_max = UINT64_C(0xffffffffffe00000)

static const struct kmd_chip chips[] = {
    {
        .core = {.name = "gfx1036", .generation = 10, .num_se = 1, .num_cu = 2, .counter_khz = 100000},
        .vram_nbytes = 512 * MIB,
        .visible_nbytes = 512 * MIB,
        .gtt_nbytes = 15 * GIB,
        .compute_rings = 4,
        .dma_rings = 1,
        .gfx_version = VERSION(10, 3, 6),
        .dma_version = VERSION(5, 2, 6),
        .me = 13, .pfp = 13, .mec = 18, .rlc = 1, .sdma = 9,
        .gb_addr_config = 0x42,
        .info = {
            ADDRESSES,
            .device_id = 0x164e, .external_rev = 2, .pci_rev = 0xc1, .family = AMDGPU_FAMILY_GC_10_3_6,
            .num_shader_engines = 1, .num_shader_arrays_per_engine = 1, .gpu_counter_freq = 100000,
            .max_engine_clock = 2200000, .max_memory_clock = 2400000, .min_engine_clock = 400000,
            .min_memory_clock = 800000, .cu_active_number = 2, .cu_ao_mask = 3, .cu_bitmap = {{3}},
            .enabled_rb_pipes_mask = 1, .num_rb_pipes = 1, .num_hw_gfx_contexts = 8, .pcie_gen = 4,
            .pcie_num_lanes = 16, .ids_flags = AMDGPU_IDS_FLAGS_FUSION, .vram_type = AMDGPU_VRAM_TYPE_DDR5,
            .vram_bit_width = 128, .gc_double_offchip_lds_buf = 1, .wave_front_size = 32,
            .num_shader_visible_vgprs = 1024, .num_cu_per_sh = 2, .num_tcc_blocks = 2, .gs_vgt_table_depth = 32,
            .gs_prim_buffer_depth = 1792, .max_gs_waves_per_vgt = 32, .cu_ao_bitmap = {{3}}, .tcp_cache_size = 16,
            .num_sqc_per_wgp = 1, .sqc_data_cache_size = 16, .sqc_inst_cache_size = 32, .gl1c_cache_size = 128,
            .gl2c_cache_size = 256,
        },
    },
    {
        .core = {.name = "gfx1100", .generation = 11, .num_se = 6, .num_cu = 96, .counter_khz = 100000},
        .vram_nbytes = 24 * GIB,
        .visible_nbytes = 24 * GIB,
        .gtt_nbytes = 32 * GIB,
        .compute_rings = 4,
        .dma_rings = 2,
        .gfx_version = VERSION(11, 0, 0),
        .dma_version = VERSION(6, 0, 0),
        .me = 1486, .pfp = 1525, .mec = 494, .rlc = 1, .sdma = 21,
        .gb_addr_config = 0x545,
        .info = {
            ADDRESSES,
            .device_id = 0x744c, .external_rev = 1, .pci_rev = 0xc8, .family = AMDGPU_FAMILY_GC_11_0_0,
            .num_shader_engines = 6, .num_shader_arrays_per_engine = 2, .gpu_counter_freq = 100000,
            .max_engine_clock = 2500000, .max_memory_clock = 1249000, .min_engine_clock = 500000,
            .min_memory_clock = 96000, .cu_active_number = 96,
            /* engines 4 and 5 are in columns 2 and 3 of rows 0 and 1 */
            .cu_bitmap = {{0xff, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff}, {0xff, 0xff}, {0xff, 0xff}},
            .enabled_rb_pipes_mask = 0xffffff, .num_rb_pipes = 24, .num_hw_gfx_contexts = 8, .pcie_gen = 4,
            .pcie_num_lanes = 16, .vram_type = AMDGPU_VRAM_TYPE_GDDR6, .vram_bit_width = 384,
            .gc_double_offchip_lds_buf = 1, .wave_front_size = 32, .num_shader_visible_vgprs = 1536,
            .num_cu_per_sh = 8, .num_tcc_blocks = 24, .gs_vgt_table_depth = 32, .gs_prim_buffer_depth = 1792,
            .max_gs_waves_per_vgt = 32, .tcp_cache_size = 32, .num_sqc_per_wgp = 1, .sqc_data_cache_size = 16,
            .sqc_inst_cache_size = 32, .gl1c_cache_size = 256, .gl2c_cache_size = 6144, .mall_size = 96 * MIB,
        },
    },
};

const struct kmd_chip *kmd_chip(const char *name)
{
    for (size_t i = 0; name && i < sizeof(chips) / sizeof(chips[0]); i++)
        if (strcmp(chips[i].core.name, name) == 0)
            return &chips[i];
    return NULL;
}
