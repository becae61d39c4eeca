/* The egl device: OpenGL compute on a context that one C thread owns. Any thread may call these
 * functions; the caller needs no context. Work goes to the owner thread as records. Every other
 * call sends a request to the owner thread and waits for the answer, with a timeout. */
#ifndef SP_EGL_H
#define SP_EGL_H
#include "sp_cmd.h"
#include "sp_queue.h"

enum sp_egl_flags {
    SP_EGL_SOFTWARE = 1,
    SP_EGL_ES = 2,         /* OpenGL ES 3.1 or later instead of OpenGL 4.3 core or later */
    SP_EGL_PERSISTENT = 4, /* buffers can stay mapped while the device uses them */
    SP_EGL_F64 = 8,
    SP_EGL_I64 = 16,
    SP_EGL_SPIRV = 32,
    SP_EGL_TIMER = 64,     /* the device clock can be read */
    SP_EGL_BINARIES = 128, /* linked programs can be saved and restored */
    SP_EGL_RESET = 256     /* the context reports when it is lost */
};

/* A device that EGL lists. `index` is EGL's number for it; -1 is the surfaceless platform, which
 * names no device. */
struct sp_egl_node {
    int32_t index;
    uint32_t software;
    char node[64];
    char extensions[512];
};
struct sp_egl_nodes {
    int32_t count;
    char library[256];
    char report[2048]; /* a line for each path at which the EGL library was tried */
    struct sp_egl_node node[17];
};
/* Lists the devices in EGL's order, the surfaceless platform last. Returns 0, -ENOENT or -ELIBBAD
 * without EGL, or -ECHILD if this process was forked after EGL was initialised. */
int sp_egl_list(struct sp_egl_nodes *out);

struct sp_egl_info {
    uint32_t flags;
    int32_t version; /* 43 for OpenGL 4.3, 31 for ES 3.1 */
    uint32_t max_groups[3];
    uint32_t max_group_size[3];
    uint32_t max_invocations;
    uint32_t max_shared_nbytes;
    uint32_t max_bindings; /* largest number of pointer arguments that a kernel can have */
    uint32_t max_blocks;   /* largest number of storage blocks that a shader can use */
    uint32_t offset_alignment;
    /* limit of the bytes that a kernel can reach through one pointer argument */
    uint64_t max_block_nbytes;
    uint64_t memory_nbytes;    /* size of the device's memory; 0: unknown */
    char vendor[128];
    char renderer[256];
    char version_text[256];
};

struct sp_egl;
struct sp_egl_queue;
struct sp_egl_kernel;

/* Opens a device of sp_egl_list: makes a context and starts its owner thread. Returns 0; -ENODEV
 * without a context; -ENOTSUP if GL is too old; -ENOMEM or -ETIMEDOUT. Writes the reason of a
 * failure to `why`. */
int sp_egl_open(int32_t index, char *why, size_t why_nbytes, struct sp_egl **out);
/* Closes the device. The context ends at once if no queue is open and nothing is mapped, or else
 * when the last queue is closed or the last address unmapped. Other calls may be in progress: they
 * end before the context. Later calls return -ENODEV. Returns 0, or -ETIMEDOUT if the driver does
 * not return. The EGL display stays initialised. */
int sp_egl_close(struct sp_egl *dev, uint64_t timeout_ns);
/* Closes the device if it is open, without waiting, and makes the handle invalid. No other call may
 * use the handle. */
void sp_egl_release(struct sp_egl *dev);
void sp_egl_describe(const struct sp_egl *dev, struct sp_egl_info *out);
/* Copies the lines that the driver reported since the last call. Returns the bytes written. */
size_t sp_egl_messages(struct sp_egl *dev, char *out, size_t capacity);

enum sp_egl_memory { SP_EGL_DEVICE = 0, SP_EGL_HOST = 1, SP_EGL_SHARED = 2 };
/* Allocates zeroed memory. HOST memory stays mapped; SHARED memory needs a later sp_egl_share. The
 * address is a number of this backend (bit 62, buffer, offset); arithmetic is valid within one
 * buffer only. Returns 0, -ENOMEM, -ENODEV or -ETIMEDOUT. */
int sp_egl_alloc(struct sp_egl *dev, uint64_t nbytes, uint32_t memory, uint64_t *address);
void sp_egl_free(struct sp_egl *dev, uint64_t address);
/* Connects SHARED memory to a file (a memfd) of at least its size. Every submission that uses the
 * buffer first copies the file's bytes to the buffer. After its run it copies them back. The caller
 * keeps the descriptor. */
int sp_egl_share(struct sp_egl *dev, uint64_t address, int fd);
/* Gives the address in this process of the buffer at device address `address`. It is valid until
 * the buffer is freed or sp_egl_unmap is called, once for each successful sp_egl_map. */
int sp_egl_map(struct sp_egl *dev, uint64_t address, void **out);
void sp_egl_unmap(struct sp_egl *dev);

enum sp_egl_image { SP_EGL_GLSL = 1, SP_EGL_SPIRV_IMAGE = 2, SP_EGL_BINARY = 3 };
/* Loads a kernel. `scalars` has a letter for each scalar argument: f float, d double, i int32,
 * u uint32, I int64, U uint64. Returns 0. Returns -ENOEXEC with a text in `why`: the driver's log,
 * or how shader and signature differ. Returns -ESTALE if `source` is a saved binary that the driver
 * does not accept. */
int sp_egl_load(struct sp_egl *dev, uint32_t image, const void *source, size_t nbytes, uint32_t format,
                const char *entry, const struct sp_signature *sig, const char *scalars, char *why, size_t why_nbytes,
                struct sp_egl_kernel **out);
void sp_egl_unload(struct sp_egl_kernel *k);
/* Gives the linked program in the driver's own format; sp_egl_binary_free frees *out. Returns 0, or
 * -ENOTSUP if the driver cannot store programs. */
int sp_egl_binary(struct sp_egl_kernel *k, uint32_t *format, void **out, size_t *nbytes);
void sp_egl_binary_free(void *binary);
struct sp_egl_shape {
    uint32_t group_size[3];
    /* 1: a grid of more groups than max_groups is split into several dispatches */
    uint32_t any_grid;
    uint32_t blocks;   /* storage blocks that the kernel uses */
};
void sp_egl_kernel_shape(const struct sp_egl_kernel *k, struct sp_egl_shape *out);

int sp_egl_queue_open(struct sp_egl *dev, uint32_t flags, struct sp_egl_queue **out);
/* Waits for submitted work, then closes the queue. Returns -ETIMEDOUT if work still runs; the queue
 * then accepts no more work and may be closed again later. The handle stays valid until it is
 * released. */
int sp_egl_queue_close(struct sp_egl_queue *q, uint64_t timeout_ns);

/* Checks records without submitting them. Returns 0, or the error that launch or submit would
 * return: -EINVAL for a malformed record or another group size than the kernel's; -EFAULT for an
 * address outside all live buffers; -ERANGE for a buffer that is too short; -EADDRNOTAVAIL for an
 * offset that the device cannot bind; -EFBIG for more bytes than one pointer can reach; -E2BIG for
 * too many groups. */
int sp_egl_check(struct sp_egl *dev, const void *records, size_t nbytes);
int64_t sp_egl_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch);
int64_t sp_egl_run(struct sp_prepared *p);
int64_t sp_egl_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch);
/* sp_egl_upload copies host memory to the device; `data` may change when the call returns.
 * sp_egl_download copies from the device; `data` must live until the timeline reaches the value
 * that sp_egl_download returned. */
int64_t sp_egl_upload(struct sp_egl_queue *q, uint64_t address, const void *data, uint64_t nbytes);
int64_t sp_egl_download(struct sp_egl_queue *q, uint64_t address, void *data, uint64_t nbytes);

uint64_t sp_egl_reached(void *queue);
/* Waits for a timeline value. Returns 0 when it is reached, -ETIMEDOUT, or the error with which
 * that submission ended (after -EIO, sp_egl_fault has the text). */
int sp_egl_wait(void *queue, uint64_t value, uint64_t timeout_ns);
size_t sp_egl_fault(struct sp_egl_queue *q, uint64_t value, char *out, size_t capacity);

/* Copies the records of a submission that has not ended, as sp_cpu_peek does. */
int64_t sp_egl_peek(struct sp_egl_queue *q, uint64_t value, void *records, size_t capacity,
                    struct sp_progress *out);
#endif
