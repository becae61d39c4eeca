/* The ioctl INFO. Each query fills an answer; the caller gets as much of it as fits its buffer. */
#include "emu/kmd/state/handlers.h"
#include "emu/kmd/state/state.h"

#include "emu/cp/cp.h"
#include "emu/kmd/memory/memory.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

enum { MOST_REGISTERS = 128, GB_ADDR_CONFIG = 0x263e, GRBM_STATUS = 0x2004 };
/* size of HW_IP_INFO with userq_num_slots, which newer kernel drivers have; its value is 0 here */
enum { HW_IP_NBYTES_USERQ = 40 };

union answer {
    uint32_t u32;
    uint64_t u64;
    uint32_t words[MOST_REGISTERS];
    struct drm_amdgpu_info_hw_ip hw_ip;
    struct drm_amdgpu_info_firmware firmware;
    struct drm_amdgpu_info_vram_gtt vram_gtt;
    struct drm_amdgpu_memory_info memory;
    struct drm_amdgpu_info_device device;
    struct drm_amdgpu_info_gds gds;
    struct drm_amdgpu_info_video_caps video;
    struct drm_amdgpu_info_gpuvm_fault fault;
};

static int hw_ip(const struct kmd_card *card, const struct drm_amdgpu_info *in, struct drm_amdgpu_info_hw_ip *out)
{
    const struct kmd_chip *chip = &card->chip;
    uint32_t type = in->query_hw_ip.type;
    bool dma = type == AMDGPU_HW_IP_DMA;
    if (type >= AMDGPU_HW_IP_NUM || in->query_hw_ip.ip_instance)
        return -EINVAL;
    int nbytes = card->kms_minor < KMD_KMS_USERQ ? (int)sizeof(*out) : HW_IP_NBYTES_USERQ;
    if (type > AMDGPU_HW_IP_DMA) /* there are no video engines, so these types have no rings */
        return nbytes;
    uint32_t version = dma ? chip->dma_version : chip->gfx_version;
    const struct sp_emu_flaw_of *off = sp_emu_flaw(&chip->core, SP_FLAW_RING);
    const struct sp_emu_flaw_of *other = dma ? NULL : sp_emu_flaw(&chip->core, SP_FLAW_CHIP);
    uint32_t rings = off && off->a == type ? 0 : dma ? chip->dma_rings : type == AMDGPU_HW_IP_COMPUTE ? chip->compute_rings : 1;
    version = other ? (uint32_t)other->a : version;
    out->hw_ip_version_major = version >> 16;
    /* Reports the version of the kernel driver's ip_block, not of the chip: gfx_v10_0 and gfx_v11_0
     * have minor version 0, sdma_v5_2 has 2. For example, a BC-250 answers 10.0. */
    out->hw_ip_version_minor = dma ? version >> 8 & 0xff : 0;
    out->ib_start_alignment = dma ? SP_IB_START_DMA : SP_IB_START;
    out->ib_size_alignment = dma ? SP_IB_SIZE_DMA : SP_IB_SIZE;
    out->available_rings = (1U << rings) - 1;
    out->ip_discovery_version = card->kms_minor < KMD_KMS_DISCOVERY ? 0 : version;
    return nbytes;
}

static int hw_ip_count(const struct drm_amdgpu_info *in, uint32_t *out)
{
    if (in->query_hw_ip.type >= AMDGPU_HW_IP_NUM)
        return -EINVAL;
    *out = in->query_hw_ip.type <= AMDGPU_HW_IP_DMA;
    return sizeof(*out);
}

static int firmware(const struct kmd_chip *chip, const struct drm_amdgpu_query_fw *in,
                    struct drm_amdgpu_info_firmware *out)
{
    enum { LAST_KNOWN = 0x1b };
    uint32_t type = in->fw_type;
    if (in->ip_instance || type == 0 || type == 0x09 || type > LAST_KNOWN)
        return -EINVAL;
    if (in->index > 1 && (type == AMDGPU_INFO_FW_GFX_MEC || type == AMDGPU_INFO_FW_SDMA))
        return -EINVAL;
    if (sp_emu_flaw(&chip->core, SP_FLAW_FIRMWARE))
        return sizeof(*out);
    if (type == AMDGPU_INFO_FW_GFX_ME || type == AMDGPU_INFO_FW_GFX_PFP || type == AMDGPU_INFO_FW_GFX_MEC)
        out->feature = chip->cp_feature;
    out->ver = type == AMDGPU_INFO_FW_GFX_ME    ? chip->me
               : type == AMDGPU_INFO_FW_GFX_PFP ? chip->pfp
               : type == AMDGPU_INFO_FW_GFX_MEC ? chip->mec
               : type == AMDGPU_INFO_FW_GFX_RLC ? chip->rlc
               : type == AMDGPU_INFO_FW_SDMA    ? chip->sdma
                                                : 0;
    return sizeof(*out);
}

static int registers(const struct kmd_card *card, const struct drm_amdgpu_info *in, uint32_t *out)
{
    uint32_t first = in->read_mmr_reg.dword_offset, count = in->read_mmr_reg.count;
    if (count == 0 || count > MOST_REGISTERS)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        if (first + i != GB_ADDR_CONFIG && first + i != GRBM_STATUS)
            return -EFAULT; /* the register is not on the kernel driver's list of readable ones */
        out[i] = first + i == GB_ADDR_CONFIG ? card->chip.gb_addr_config : 0;
    }
    return (int)(count * 4);
}

static void heap(struct drm_amdgpu_heap_info *out, uint64_t total, uint64_t used)
{
    out->total_heap_size = out->usable_heap_size = total;
    out->heap_usage = used;
    out->max_allocation = total * 3 / 4;
}

static int memory(const struct kmd_card *card, struct drm_amdgpu_memory_info *out)
{
    heap(&out->vram, card->chip.vram_nbytes, card->vram_used);
    heap(&out->cpu_accessible_vram, card->chip.visible_nbytes, card->visible_used);
    heap(&out->gtt, card->chip.gtt_nbytes, card->gtt_used);
    return sizeof(*out);
}

static int sensor(const struct kmd_card *card, uint32_t type, uint32_t *out)
{
    enum { MILLIDEGREES = 40000, WATTS = 10 };
    switch (type) {
    case AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK:
        if (card->kms_minor < KMD_KMS_MIN_CLOCKS)
            return -EINVAL;
        /* fall through */
    case AMDGPU_INFO_SENSOR_GFX_SCLK:
        *out = (uint32_t)(card->chip.info.max_engine_clock / 1000);
        return sizeof(*out);
    case AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK:
        if (card->kms_minor < KMD_KMS_MIN_CLOCKS)
            return -EINVAL;
        /* fall through */
    case AMDGPU_INFO_SENSOR_GFX_MCLK:
        *out = (uint32_t)(card->chip.info.max_memory_clock / 1000);
        return sizeof(*out);
    case AMDGPU_INFO_SENSOR_GPU_TEMP:
        *out = MILLIDEGREES;
        return sizeof(*out);
    case AMDGPU_INFO_SENSOR_GPU_LOAD:
        *out = card->gfx.running || card->compute[0].running ? 100 : 0;
        return sizeof(*out);
    case AMDGPU_INFO_SENSOR_GPU_AVG_POWER:
        *out = WATTS;
        return sizeof(*out);
    default:
        return -EINVAL;
    }
}

static int max_ibs(const struct kmd_card *card, uint32_t *out)
{
    if (card->kms_minor < KMD_KMS_MAX_IBS)
        return -EINVAL;
    for (uint32_t ip = 0; ip < AMDGPU_HW_IP_NUM; ip++)
        out[ip] = ip == AMDGPU_HW_IP_GFX ? 192 : ip == AMDGPU_HW_IP_COMPUTE ? 125 : 49;
    return AMDGPU_HW_IP_NUM * 4;
}

static int last_fault(const struct kmd_card *card, struct drm_amdgpu_info_gpuvm_fault *out)
{
    const struct sp_emu_fault_report *fault = &card->fault;
    if (card->kms_minor < KMD_KMS_FAULT)
        return -EINVAL;
    if (fault->kind >= SP_FAULT_UNMAPPED && fault->kind <= SP_FAULT_UNLISTED) {
        out->addr = fault->va & ~UINT64_C(0xfff);
        /* bits MORE_FAULTS and RW of the register GCVM_L2_PROTECTION_FAULT_STATUS */
        out->status = 1 | (fault->access & SP_VM_WRITE ? 1U << 18 : 0);
    }
    return sizeof(*out);
}

/* Returns the size of struct drm_amdgpu_info_device (the reply to DEV_INFO) in a kernel driver of
 * this KMS version. The struct has grown at its end. */
static int device_nbytes(uint32_t kms_minor)
{
    size_t end = kms_minor < KMD_KMS_MIN_CLOCKS ? offsetof(struct drm_amdgpu_info_device, min_engine_clock)
                 : kms_minor < KMD_KMS_CACHES   ? offsetof(struct drm_amdgpu_info_device, tcp_cache_size)
                 : kms_minor < KMD_KMS_SHADOW   ? offsetof(struct drm_amdgpu_info_device, shadow_size)
                 : kms_minor < KMD_KMS_USERQ    ? offsetof(struct drm_amdgpu_info_device, userq_ip_mask)
                                                : sizeof(struct drm_amdgpu_info_device);
    return (int)((end + 7) / 8 * 8);
}

static int device(const struct kmd_card *card, struct drm_amdgpu_info_device *out)
{
    const struct kmd_chip *chip = &card->chip;
    const struct sp_emu_flaw_of *family = sp_emu_flaw(&chip->core, SP_FLAW_FAMILY);
    const struct sp_emu_flaw_of *frequency = sp_emu_flaw(&chip->core, SP_FLAW_FREQUENCY);
    *out = chip->info;
    if (family) {
        out->family = (uint32_t)family->a;
        out->external_rev = family->b ? (uint32_t)family->b : out->external_rev;
    }
    if (frequency)
        out->gpu_counter_freq = (uint32_t)frequency->a;
    return device_nbytes(card->kms_minor);
}

static int u64(uint64_t value, uint64_t *out)
{
    *out = value;
    return sizeof(*out);
}

static int u32(uint32_t value, uint32_t *out)
{
    *out = value;
    return sizeof(*out);
}

static bool is_idle(const struct kmd_card *card)
{
    bool idle = !card->gfx.running;
    for (uint32_t i = 0; i < card->chip.compute_rings; i++) idle = idle && !card->compute[i].running;
    return idle;
}

/* Returns the clock. An idle card is off and wakes up before its clock is read (amdgpu_gfx_off_ctrl
 * in gfx_v10_0_get_gpu_clock_counter). So the answer comes late, by a time that the caller cannot
 * know. */
static uint64_t clock_of(const struct kmd_card *card)
{
    struct kmd_machine *machine = card->machine;
    enum { WAKES_NS = 100000 };
    bool late = machine->options.delay_ns && is_idle(card);
    struct timespec before = {0, late ? (long)kmd_random(machine, WAKES_NS) : 0};
    struct timespec after = {0, late ? (long)kmd_random(machine, WAKES_NS) : 0};
    if (late) nanosleep(&before, NULL);
    uint64_t now = sp_emu_gpu_clock(&card->chip.core);
    if (late) nanosleep(&after, NULL);
    return now;
}

/* Answers a query. Returns the length of the answer, or -errno. */
static int query(const struct kmd_card *card, const struct drm_amdgpu_info *in, union answer *out)
{
    const struct kmd_chip *chip = &card->chip;
    switch (in->query) {
    case AMDGPU_INFO_ACCEL_WORKING:
        return u32(!sp_emu_flaw(&chip->core, SP_FLAW_ACCEL), &out->u32);
    case AMDGPU_INFO_HW_IP_INFO:
        return hw_ip(card, in, &out->hw_ip);
    case AMDGPU_INFO_HW_IP_COUNT:
        return hw_ip_count(in, &out->u32);
    case AMDGPU_INFO_TIMESTAMP:
        return u64(clock_of(card), &out->u64);
    case AMDGPU_INFO_FW_VERSION:
        return firmware(chip, &in->query_fw, &out->firmware);
    case AMDGPU_INFO_NUM_EVICTIONS:
        return u64(card->evictions, &out->u64);
    case AMDGPU_INFO_NUM_BYTES_MOVED:
    case AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS:
    case AMDGPU_INFO_RAS_ENABLED_FEATURES:
        return u64(0, &out->u64);
    case AMDGPU_INFO_VRAM_USAGE:
        return u64(card->vram_used, &out->u64);
    case AMDGPU_INFO_GTT_USAGE:
        return u64(card->gtt_used, &out->u64);
    case AMDGPU_INFO_VIS_VRAM_USAGE:
        return u64(card->visible_used, &out->u64);
    case AMDGPU_INFO_GDS_CONFIG:
        out->gds.compute_partition_size = out->gds.gds_total_size = kmd_on_chip_size(card, AMDGPU_GEM_DOMAIN_GDS);
        out->gds.gws_per_compute_partition = kmd_on_chip_size(card, AMDGPU_GEM_DOMAIN_GWS);
        out->gds.oa_per_compute_partition = kmd_on_chip_size(card, AMDGPU_GEM_DOMAIN_OA);
        return sizeof(out->gds);
    case AMDGPU_INFO_VRAM_GTT:
        out->vram_gtt = (struct drm_amdgpu_info_vram_gtt){chip->vram_nbytes, chip->visible_nbytes, chip->gtt_nbytes};
        return sizeof(out->vram_gtt);
    case AMDGPU_INFO_READ_MMR_REG:
        return registers(card, in, out->words);
    case AMDGPU_INFO_DEV_INFO:
        return device(card, &out->device);
    case AMDGPU_INFO_MEMORY:
        return memory(card, &out->memory);
    case AMDGPU_INFO_SENSOR:
        return sensor(card, in->sensor_info.type, &out->u32);
    case AMDGPU_INFO_VRAM_LOST_COUNTER:
        return u32(card->vram_lost_counter, &out->u32);
    case AMDGPU_INFO_VIDEO_CAPS:
        return in->video_cap.type > 1 ? -EINVAL : (int)sizeof(out->video);
    case AMDGPU_INFO_MAX_IBS:
        return max_ibs(card, out->words);
    case AMDGPU_INFO_GPUVM_FAULT:
        return last_fault(card, &out->fault);
    default:
        return -EINVAL;
    }
}

int kmd_do_info(struct kmd_file *file, void *data)
{
    const struct drm_amdgpu_info *in = data;
    union answer answer;
    if (!in->return_size || !in->return_pointer)
        return -EINVAL;
    memset(&answer, 0, sizeof(answer));
    int length = query(file->card, in, &answer);
    if (length < 0)
        return length;
    uint32_t n = (uint32_t)length < in->return_size ? (uint32_t)length : in->return_size;
    return kmd_copy_to_user(in->return_pointer, &answer, n);
}
