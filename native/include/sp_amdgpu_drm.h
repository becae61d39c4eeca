/* The amdgpu ioctls: this project's declarations of Linux's interface, under Linux's names, as of
 * KMS 3.64. Older versions of Linux accept longer structs and fill in fewer fields.
 * tests/backends/amdgpu/test_drm_structs.py compares the declarations with libdrm's headers.
 *
 * The file has more than 400 lines, because it is one interface: a list of plain structs and
 * constants. */
#ifndef SP_AMDGPU_DRM_H
#define SP_AMDGPU_DRM_H
#include "sp_drm.h"

enum {
    DRM_IOCTL_AMDGPU_GEM_CREATE = 0xc0206440,
    DRM_IOCTL_AMDGPU_GEM_MMAP = 0xc0086441,
    DRM_IOCTL_AMDGPU_CTX = 0xc0106442,
    DRM_IOCTL_AMDGPU_BO_LIST = 0xc0186443,
    DRM_IOCTL_AMDGPU_CS = 0xc0186444,
    DRM_IOCTL_AMDGPU_INFO = 0x40206445,
    DRM_IOCTL_AMDGPU_GEM_METADATA = 0xc1206446,
    DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE = 0xc0106447,
    DRM_IOCTL_AMDGPU_GEM_VA = 0x40286448,
    DRM_IOCTL_AMDGPU_WAIT_CS = 0xc0206449,
    DRM_IOCTL_AMDGPU_GEM_OP = 0xc0106450,
    DRM_IOCTL_AMDGPU_GEM_USERPTR = 0xc0186451,
    DRM_IOCTL_AMDGPU_WAIT_FENCES = 0xc0186452,
    DRM_IOCTL_AMDGPU_VM = 0xc0086453,
    DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE = 0xc0206454,
    DRM_IOCTL_AMDGPU_SCHED = 0x40106455
};

/* Memory */
enum {
    AMDGPU_GEM_DOMAIN_CPU = 1,
    AMDGPU_GEM_DOMAIN_GTT = 2,
    AMDGPU_GEM_DOMAIN_VRAM = 4,
    AMDGPU_GEM_DOMAIN_GDS = 8,
    AMDGPU_GEM_DOMAIN_GWS = 0x10,
    AMDGPU_GEM_DOMAIN_OA = 0x20,
    AMDGPU_GEM_DOMAIN_DOORBELL = 0x40
};

enum {
    AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED = 1,
    AMDGPU_GEM_CREATE_NO_CPU_ACCESS = 2,
    AMDGPU_GEM_CREATE_CPU_GTT_USWC = 4,
    AMDGPU_GEM_CREATE_VRAM_CLEARED = 8,
    AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS = 0x20,
    AMDGPU_GEM_CREATE_VM_ALWAYS_VALID = 0x40,
    AMDGPU_GEM_CREATE_EXPLICIT_SYNC = 0x80,
    AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE = 0x200,
    AMDGPU_GEM_CREATE_ENCRYPTED = 0x400,
    AMDGPU_GEM_CREATE_PREEMPTIBLE = 0x800,
    AMDGPU_GEM_CREATE_DISCARDABLE = 0x1000,
    AMDGPU_GEM_CREATE_COHERENT = 0x2000,
    AMDGPU_GEM_CREATE_UNCACHED = 0x4000,
    AMDGPU_GEM_CREATE_EXT_COHERENT = 0x8000,
    AMDGPU_GEM_CREATE_GFX12_DCC = 0x10000
};

struct drm_amdgpu_gem_create_in {
    uint64_t bo_size;
    uint64_t alignment;
    uint64_t domains;
    uint64_t domain_flags;
};
struct drm_amdgpu_gem_create_out {
    uint32_t handle;
    uint32_t _pad;
};
union drm_amdgpu_gem_create {
    struct drm_amdgpu_gem_create_in in;
    struct drm_amdgpu_gem_create_out out;
};

struct drm_amdgpu_gem_mmap_in {
    uint32_t handle;
    uint32_t _pad;
};
struct drm_amdgpu_gem_mmap_out {
    uint64_t addr_ptr; /* offset to pass to mmap() of the render node */
};
union drm_amdgpu_gem_mmap {
    struct drm_amdgpu_gem_mmap_in in;
    struct drm_amdgpu_gem_mmap_out out;
};

enum {
    AMDGPU_GEM_USERPTR_READONLY = 1,
    AMDGPU_GEM_USERPTR_ANONONLY = 2,
    AMDGPU_GEM_USERPTR_VALIDATE = 4,
    AMDGPU_GEM_USERPTR_REGISTER = 8
};
struct drm_amdgpu_gem_userptr {
    uint64_t addr;
    uint64_t size;
    uint32_t flags;
    uint32_t handle; /* out */
};

enum { AMDGPU_GEM_METADATA_OP_SET_METADATA = 1, AMDGPU_GEM_METADATA_OP_GET_METADATA = 2 };
struct drm_amdgpu_gem_metadata {
    uint32_t handle;
    uint32_t op;
    struct {
        uint64_t flags;
        uint64_t tiling_info;
        uint32_t data_size_bytes;
        uint32_t data[64];
    } data;
};

struct drm_amdgpu_gem_wait_idle_in {
    uint32_t handle;
    uint32_t flags;
    uint64_t timeout; /* absolute time of CLOCK_MONOTONIC in ns; with the top bit set: no timeout */
};
struct drm_amdgpu_gem_wait_idle_out {
    uint32_t status; /* 0: the BO is idle */
    uint32_t domain;
};
union drm_amdgpu_gem_wait_idle {
    struct drm_amdgpu_gem_wait_idle_in in;
    struct drm_amdgpu_gem_wait_idle_out out;
};

enum { AMDGPU_GEM_OP_GET_GEM_CREATE_INFO = 0, AMDGPU_GEM_OP_SET_PLACEMENT = 1 };
struct drm_amdgpu_gem_op {
    uint32_t handle;
    uint32_t op;
    uint64_t value;
};

enum {
    AMDGPU_VA_OP_MAP = 1,
    AMDGPU_VA_OP_UNMAP = 2,
    AMDGPU_VA_OP_CLEAR = 3,
    AMDGPU_VA_OP_REPLACE = 4,
    AMDGPU_VM_DELAY_UPDATE = 1,
    AMDGPU_VM_PAGE_READABLE = 2,
    AMDGPU_VM_PAGE_WRITEABLE = 4,
    AMDGPU_VM_PAGE_EXECUTABLE = 8,
    AMDGPU_VM_PAGE_PRT = 0x10,
    AMDGPU_VM_MTYPE_MASK = 0x1e0,
    AMDGPU_VM_MTYPE_DEFAULT = 0,
    AMDGPU_VM_MTYPE_NC = 0x20,
    AMDGPU_VM_MTYPE_WC = 0x40,
    AMDGPU_VM_MTYPE_CC = 0x60,
    AMDGPU_VM_MTYPE_UC = 0x80,
    AMDGPU_VM_MTYPE_RW = 0xa0,
    AMDGPU_VM_PAGE_NOALLOC = 0x200
};
/* The argument of the ioctl GEM_VA: the 40 bytes that every version of Linux accepts. Newer
 * versions append vm_timeline_point and input fences. */
struct drm_amdgpu_gem_va {
    uint32_t handle;
    uint32_t _pad;
    uint32_t operation;
    uint32_t flags;
    uint64_t va_address;
    uint64_t offset_in_bo;
    uint64_t map_size;
};

/* operations of the ioctl BO_LIST */
enum { AMDGPU_BO_LIST_OP_CREATE = 0, AMDGPU_BO_LIST_OP_DESTROY = 1, AMDGPU_BO_LIST_OP_UPDATE = 2 };
struct drm_amdgpu_bo_list_in {
    uint32_t operation;
    uint32_t list_handle;
    uint32_t bo_number;
    uint32_t bo_info_size;
    uint64_t bo_info_ptr;
};
struct drm_amdgpu_bo_list_entry {
    uint32_t bo_handle;
    uint32_t bo_priority;
};
struct drm_amdgpu_bo_list_out {
    uint32_t list_handle;
    uint32_t _pad;
};
union drm_amdgpu_bo_list {
    struct drm_amdgpu_bo_list_in in;
    struct drm_amdgpu_bo_list_out out;
};

/* Contexts */
enum {
    AMDGPU_CTX_OP_ALLOC_CTX = 1,
    AMDGPU_CTX_OP_FREE_CTX = 2,
    AMDGPU_CTX_OP_QUERY_STATE = 3,
    AMDGPU_CTX_OP_QUERY_STATE2 = 4,
    AMDGPU_CTX_OP_GET_STABLE_PSTATE = 5,
    AMDGPU_CTX_OP_SET_STABLE_PSTATE = 6,
    AMDGPU_CTX_NO_RESET = 0,
    AMDGPU_CTX_GUILTY_RESET = 1,
    AMDGPU_CTX_INNOCENT_RESET = 2,
    AMDGPU_CTX_UNKNOWN_RESET = 3,
    AMDGPU_CTX_QUERY2_FLAGS_RESET = 1,
    AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST = 2,
    AMDGPU_CTX_QUERY2_FLAGS_GUILTY = 4,
    AMDGPU_CTX_QUERY2_FLAGS_RAS_CE = 8,
    AMDGPU_CTX_QUERY2_FLAGS_RAS_UE = 0x10,
    AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS = 0x20,
    AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK = 0xf,
    AMDGPU_CTX_STABLE_PSTATE_NONE = 0,
    AMDGPU_CTX_STABLE_PSTATE_STANDARD = 1,
    AMDGPU_CTX_STABLE_PSTATE_MIN_SCLK = 2,
    AMDGPU_CTX_STABLE_PSTATE_MIN_MCLK = 3,
    AMDGPU_CTX_STABLE_PSTATE_PEAK = 4
};
enum {
    AMDGPU_CTX_PRIORITY_UNSET = -2048,
    AMDGPU_CTX_PRIORITY_VERY_LOW = -1023,
    AMDGPU_CTX_PRIORITY_LOW = -512,
    AMDGPU_CTX_PRIORITY_NORMAL = 0,
    AMDGPU_CTX_PRIORITY_HIGH = 512,
    AMDGPU_CTX_PRIORITY_VERY_HIGH = 1023
};
struct drm_amdgpu_ctx_in {
    uint32_t op;
    uint32_t flags;
    uint32_t ctx_id;
    int32_t priority;
};
union drm_amdgpu_ctx_out {
    struct {
        uint32_t ctx_id;
        uint32_t _pad;
    } alloc;
    struct {
        uint64_t flags;
        uint32_t hangs;
        uint32_t reset_status;
    } state;
    struct {
        uint32_t flags;
        uint32_t _pad;
    } pstate;
};
union drm_amdgpu_ctx {
    struct drm_amdgpu_ctx_in in;
    union drm_amdgpu_ctx_out out;
};

enum { AMDGPU_VM_OP_RESERVE_VMID = 1, AMDGPU_VM_OP_UNRESERVE_VMID = 2 };
struct drm_amdgpu_vm_in {
    uint32_t op;
    uint32_t flags;
};
struct drm_amdgpu_vm_out {
    uint64_t flags;
};
union drm_amdgpu_vm {
    struct drm_amdgpu_vm_in in;
    struct drm_amdgpu_vm_out out;
};

struct drm_amdgpu_sched_in {
    uint32_t op;
    uint32_t fd;
    int32_t priority;
    uint32_t ctx_id;
};
union drm_amdgpu_sched {
    struct drm_amdgpu_sched_in in;
};

enum {
    AMDGPU_HW_IP_GFX = 0,
    AMDGPU_HW_IP_COMPUTE = 1,
    AMDGPU_HW_IP_DMA = 2,
    AMDGPU_HW_IP_UVD = 3,
    AMDGPU_HW_IP_VCE = 4,
    AMDGPU_HW_IP_UVD_ENC = 5,
    AMDGPU_HW_IP_VCN_DEC = 6,
    AMDGPU_HW_IP_VCN_ENC = 7,
    AMDGPU_HW_IP_VCN_JPEG = 8,
    AMDGPU_HW_IP_VPE = 9,
    AMDGPU_HW_IP_NUM = 10
};
enum {
    AMDGPU_CHUNK_ID_IB = 1,
    AMDGPU_CHUNK_ID_FENCE = 2,
    AMDGPU_CHUNK_ID_DEPENDENCIES = 3,
    AMDGPU_CHUNK_ID_SYNCOBJ_IN = 4,
    AMDGPU_CHUNK_ID_SYNCOBJ_OUT = 5,
    AMDGPU_CHUNK_ID_BO_HANDLES = 6,
    AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES = 7,
    AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT = 8,
    AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL = 9,
    AMDGPU_CHUNK_ID_CP_GFX_SHADOW = 0xa
};
enum {
    AMDGPU_IB_FLAG_CE = 1,
    AMDGPU_IB_FLAG_PREAMBLE = 2,
    AMDGPU_IB_FLAG_PREEMPT = 4,
    AMDGPU_IB_FLAG_TC_WB_NOT_INVALIDATE = 8,
    AMDGPU_IB_FLAG_RESET_GDS_MAX_WAVE_ID = 0x10,
    AMDGPU_IB_FLAGS_SECURE = 0x20,
    AMDGPU_IB_FLAG_EMIT_MEM_SYNC = 0x40
};
struct drm_amdgpu_cs_chunk {
    uint32_t chunk_id;
    uint32_t length_dw;
    uint64_t chunk_data;
};
struct drm_amdgpu_cs_in {
    uint32_t ctx_id;
    uint32_t bo_list_handle;
    uint32_t num_chunks;
    uint32_t flags;
    uint64_t chunks; /* array of u64 pointers, each to a chunk */
};
struct drm_amdgpu_cs_out {
    uint64_t handle; /* sequence number of the submission in its entity, from 1 */
};
union drm_amdgpu_cs {
    struct drm_amdgpu_cs_in in;
    struct drm_amdgpu_cs_out out;
};
struct drm_amdgpu_cs_chunk_ib {
    uint32_t _pad;
    uint32_t flags;
    uint64_t va_start;
    uint32_t ib_bytes;
    uint32_t ip_type;
    uint32_t ip_instance;
    uint32_t ring; /* entity of the context, not a hardware ring */
};
struct drm_amdgpu_cs_chunk_dep {
    uint32_t ip_type;
    uint32_t ip_instance;
    uint32_t ring;
    uint32_t ctx_id;
    uint64_t handle;
};
struct drm_amdgpu_cs_chunk_fence {
    uint32_t handle;
    uint32_t offset; /* bytes */
};
struct drm_amdgpu_cs_chunk_sem {
    uint32_t handle;
};
struct drm_amdgpu_cs_chunk_syncobj {
    uint32_t handle;
    uint32_t flags;
    uint64_t point;
};

/* Waiting */
struct drm_amdgpu_wait_cs_in {
    uint64_t handle;
    uint64_t timeout;
    uint32_t ip_type;
    uint32_t ip_instance;
    uint32_t ring;
    uint32_t ctx_id;
};
struct drm_amdgpu_wait_cs_out {
    uint64_t status; /* 0: done, 1: timed out */
};
union drm_amdgpu_wait_cs {
    struct drm_amdgpu_wait_cs_in in;
    struct drm_amdgpu_wait_cs_out out;
};
struct drm_amdgpu_fence {
    uint32_t ctx_id;
    uint32_t ip_type;
    uint32_t ip_instance;
    uint32_t ring;
    uint64_t seq_no;
};
struct drm_amdgpu_wait_fences_in {
    uint64_t fences;
    uint32_t fence_count;
    uint32_t wait_all;
    uint64_t timeout_ns;
};
struct drm_amdgpu_wait_fences_out {
    uint32_t status; /* 1: signalled, 0: timed out; the opposite of WAIT_CS */
    uint32_t first_signaled;
};
union drm_amdgpu_wait_fences {
    struct drm_amdgpu_wait_fences_in in;
    struct drm_amdgpu_wait_fences_out out;
};
enum {
    AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ = 0,
    AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD = 1,
    AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD = 2
};
union drm_amdgpu_fence_to_handle {
    struct {
        struct drm_amdgpu_fence fence;
        uint32_t what;
        uint32_t pad;
    } in;
    struct {
        uint32_t handle;
    } out;
};

/* INFO */
enum {
    AMDGPU_INFO_ACCEL_WORKING = 0,
    AMDGPU_INFO_HW_IP_INFO = 2,
    AMDGPU_INFO_HW_IP_COUNT = 3,
    AMDGPU_INFO_TIMESTAMP = 5,
    AMDGPU_INFO_FW_VERSION = 0xe,
    AMDGPU_INFO_NUM_BYTES_MOVED = 0xf,
    AMDGPU_INFO_VRAM_USAGE = 0x10,
    AMDGPU_INFO_GTT_USAGE = 0x11,
    AMDGPU_INFO_GDS_CONFIG = 0x13,
    AMDGPU_INFO_VRAM_GTT = 0x14,
    AMDGPU_INFO_READ_MMR_REG = 0x15,
    AMDGPU_INFO_DEV_INFO = 0x16,
    AMDGPU_INFO_VIS_VRAM_USAGE = 0x17,
    AMDGPU_INFO_NUM_EVICTIONS = 0x18,
    AMDGPU_INFO_MEMORY = 0x19,
    AMDGPU_INFO_SENSOR = 0x1d,
    AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS = 0x1e,
    AMDGPU_INFO_VRAM_LOST_COUNTER = 0x1f,
    AMDGPU_INFO_RAS_ENABLED_FEATURES = 0x20,
    AMDGPU_INFO_VIDEO_CAPS = 0x21,
    AMDGPU_INFO_MAX_IBS = 0x22,
    AMDGPU_INFO_GPUVM_FAULT = 0x23
};
enum {
    AMDGPU_INFO_FW_GFX_ME = 4,
    AMDGPU_INFO_FW_GFX_PFP = 5,
    AMDGPU_INFO_FW_GFX_CE = 6,
    AMDGPU_INFO_FW_GFX_RLC = 7,
    AMDGPU_INFO_FW_GFX_MEC = 8,
    AMDGPU_INFO_FW_SMC = 0xa,
    AMDGPU_INFO_FW_SDMA = 0xb,
    AMDGPU_INFO_SENSOR_GFX_SCLK = 1,
    AMDGPU_INFO_SENSOR_GFX_MCLK = 2,
    AMDGPU_INFO_SENSOR_GPU_TEMP = 3,
    AMDGPU_INFO_SENSOR_GPU_LOAD = 4,
    AMDGPU_INFO_SENSOR_GPU_AVG_POWER = 5,
    AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK = 0xa,
    AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK = 0xb,
    AMDGPU_IDS_FLAGS_FUSION = 1,
    AMDGPU_IDS_FLAGS_PREEMPTION = 2,
    AMDGPU_IDS_FLAGS_TMZ = 4,
    AMDGPU_IDS_FLAGS_CONFORMANT_TRUNC_COORD = 8,
    AMDGPU_FAMILY_AI = 141,
    AMDGPU_FAMILY_NV = 143,
    AMDGPU_FAMILY_VGH = 144,
    AMDGPU_FAMILY_GC_11_0_0 = 145,
    AMDGPU_FAMILY_YC = 146,
    AMDGPU_FAMILY_GC_11_0_1 = 148,
    AMDGPU_FAMILY_GC_10_3_6 = 149,
    AMDGPU_FAMILY_GC_11_5_0 = 150,
    AMDGPU_FAMILY_GC_10_3_7 = 151,
    AMDGPU_VRAM_TYPE_GDDR6 = 9,
    AMDGPU_VRAM_TYPE_DDR5 = 10,
    AMDGPU_VRAM_TYPE_LPDDR5 = 12
};
struct drm_amdgpu_query_fw {
    uint32_t fw_type;
    uint32_t ip_instance;
    uint32_t index;
    uint32_t _pad;
};
struct drm_amdgpu_info {
    uint64_t return_pointer;
    uint32_t return_size;
    uint32_t query;
    union {
        struct {
            uint32_t id;
            uint32_t _pad;
        } mode_crtc;
        struct {
            uint32_t type;
            uint32_t ip_instance;
        } query_hw_ip;
        struct {
            uint32_t dword_offset;
            uint32_t count;
            uint32_t instance;
            uint32_t flags;
        } read_mmr_reg;
        struct drm_amdgpu_query_fw query_fw;
        struct {
            uint32_t type;
        } sensor_info;
        struct {
            uint32_t type;
        } video_cap;
    };
};
struct drm_amdgpu_info_gds {
    uint32_t gds_gfx_partition_size;
    uint32_t compute_partition_size;
    uint32_t gds_total_size;
    uint32_t gws_per_gfx_partition;
    uint32_t gws_per_compute_partition;
    uint32_t oa_per_gfx_partition;
    uint32_t oa_per_compute_partition;
    uint32_t _pad;
};
struct drm_amdgpu_info_vram_gtt {
    uint64_t vram_size;
    uint64_t vram_cpu_accessible_size;
    uint64_t gtt_size;
};
struct drm_amdgpu_heap_info {
    uint64_t total_heap_size;
    uint64_t usable_heap_size;
    uint64_t heap_usage;
    uint64_t max_allocation;
};
struct drm_amdgpu_memory_info {
    struct drm_amdgpu_heap_info vram;
    struct drm_amdgpu_heap_info cpu_accessible_vram;
    struct drm_amdgpu_heap_info gtt;
};
struct drm_amdgpu_info_firmware {
    uint32_t ver;
    uint32_t feature;
};
struct drm_amdgpu_info_video_codec_info {
    uint32_t valid;
    uint32_t max_width;
    uint32_t max_height;
    uint32_t max_pixels_per_frame;
    uint32_t max_level;
    uint32_t pad;
};
struct drm_amdgpu_info_video_caps {
    struct drm_amdgpu_info_video_codec_info codec_info[8];
};
struct drm_amdgpu_info_gpuvm_fault {
    uint64_t addr;
    uint32_t status;
    uint32_t vmhub;
};
struct drm_amdgpu_info_hw_ip {
    uint32_t hw_ip_version_major;
    uint32_t hw_ip_version_minor;
    uint64_t capabilities_flags;
    uint32_t ib_start_alignment;
    uint32_t ib_size_alignment;
    uint32_t available_rings; /* one bit for each ring of this IP block; 0: the IP block is off */
    uint32_t ip_discovery_version; /* major << 16 | minor << 8 | revision; _pad in old headers */
};
struct drm_amdgpu_info_device {
    uint32_t device_id;
    uint32_t chip_rev;
    uint32_t external_rev;
    uint32_t pci_rev;
    uint32_t family;
    uint32_t num_shader_engines;
    uint32_t num_shader_arrays_per_engine;
    uint32_t gpu_counter_freq; /* in kHz, like every clock of this struct */
    uint64_t max_engine_clock;
    uint64_t max_memory_clock;
    uint32_t cu_active_number;
    uint32_t cu_ao_mask;
    /* bits of the active CUs; shader engine e, array a has element [e % 4][a + e / 4 * 2] */
    uint32_t cu_bitmap[4][4];
    uint32_t enabled_rb_pipes_mask;
    uint32_t num_rb_pipes;
    uint32_t num_hw_gfx_contexts;
    uint32_t pcie_gen; /* called _pad in old headers */
    uint64_t ids_flags;
    uint64_t virtual_address_offset;
    uint64_t virtual_address_max;
    uint32_t virtual_address_alignment;
    uint32_t pte_fragment_size;
    uint32_t gart_page_size;
    uint32_t ce_ram_size;
    uint32_t vram_type;
    uint32_t vram_bit_width;
    uint32_t vce_harvest_config;
    uint32_t gc_double_offchip_lds_buf;
    uint64_t prim_buf_gpu_addr;
    uint64_t pos_buf_gpu_addr;
    uint64_t cntl_sb_buf_gpu_addr;
    uint64_t param_buf_gpu_addr;
    uint32_t prim_buf_size;
    uint32_t pos_buf_size;
    uint32_t cntl_sb_buf_size;
    uint32_t param_buf_size;
    uint32_t wave_front_size;
    uint32_t num_shader_visible_vgprs;
    uint32_t num_cu_per_sh;
    uint32_t num_tcc_blocks;
    uint32_t gs_vgt_table_depth;
    uint32_t gs_prim_buffer_depth;
    uint32_t max_gs_waves_per_vgt;
    uint32_t pcie_num_lanes; /* called _pad1 in old headers */
    uint32_t cu_ao_bitmap[4][4];
    uint64_t high_va_offset;
    uint64_t high_va_max;
    uint32_t pa_sc_tile_steering_override;
    uint64_t tcc_disabled_mask;
    uint64_t min_engine_clock; /* this and the members below exist since KMS 3.50 */
    uint64_t min_memory_clock;
    /* this and the members below exist since KMS 3.52; cache sizes are in KiB, except mall_size */
    uint32_t tcp_cache_size;
    uint32_t num_sqc_per_wgp;
    uint32_t sqc_data_cache_size;
    uint32_t sqc_inst_cache_size;
    uint32_t gl1c_cache_size;
    uint32_t gl2c_cache_size;
    uint64_t mall_size;
    uint32_t enabled_rb_pipes_mask_hi;
    uint32_t shadow_size; /* this and the members below exist since KMS 3.53 */
    uint32_t shadow_alignment;
    uint32_t csa_size;
    uint32_t csa_alignment;
    uint32_t userq_ip_mask; /* exists since KMS 3.64 */
    uint32_t pad;
};
#endif
