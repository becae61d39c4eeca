/* Declarations that the recorder's files share. One lock, shared by all recorders, guards
 * everything here. An ioctl that does not block is made with the lock held. So the lines of a
 * recording are in the order in which the kernel driver handled these ioctls. */
#ifndef SP_KMD_RECORD_H
#define SP_KMD_RECORD_H
#include "include/sp_amdgpu_drm.h"
#include "include/sp_record.h"

#include <sys/types.h>

/* A text that grows. sp_record_file_put writes it to the recorder's file (record_file.c). */
struct sp_record_text {
    char *at;
    size_t n, capacity;
    int failed; /* 1: memory was short, so the text is incomplete */
};
__attribute__((format(printf, 2, 3))) void sp_record_say(struct sp_record_text *text, const char *format, ...);
void sp_record_hex(struct sp_record_text *text, const void *data, size_t nbytes);
void sp_record_append(struct sp_record_text *text, const struct sp_record_text *more);

struct sp_record_file {
    char path[4096];
    pid_t pid; /* owner of the file; a forked child begins a file of its own */
    int fd;
    int shared;
    _Atomic int error; /* -errno of the failure that stopped the recording */
    uint64_t nbytes, max_nbytes;
};
int sp_record_file_open(struct sp_record_file *file, const char *path, int shared, uint64_t max_nbytes);
/* Writes the text and empties it. A failure prints one line on stderr; later calls write
 * nothing. */
void sp_record_file_put(struct sp_record_file *file, struct sp_record_text *text);
void sp_record_file_close(struct sp_record_file *file);

/* A BO of an open node. `map` and `held` are set only with SP_RECORD_MEMORY. */
struct sp_record_bo {
    struct sp_record_bo *next;
    uint32_t handle;
    int foreign;        /* 1: imported, so it cannot be mapped through the node */
    int unheld;         /* 1: the file already says that this BO's memory is not recorded */
    uint64_t nbytes;
    uint64_t user;      /* the program's address of a userptr, or 0 */
    /* map: the BO's memory, mapped into this process. held: its bytes as they were last recorded */
    unsigned char *map;
    unsigned char *held;
};
struct sp_record_map {
    struct sp_record_map *next;
    uint64_t va, nbytes, offset; /* `va` has 48 bits */
    uint32_t handle;
};
struct sp_record_node {
    struct sp_record_node *next;
    int number, amdgpu, fd; /* `fd` is one of the node's descriptors */
    struct sp_record_bo *bos;
    struct sp_record_map *maps;
};
struct sp_record_fd {
    struct sp_record_fd *next;
    int fd;
    struct sp_record_node *node;
};

struct sp_record {
    struct sp_kmd_ops ops;
    const struct sp_kmd_ops *next;
    struct sp_record_file file;
    struct sp_record_text text;
    struct sp_record_fd *fds;
    struct sp_record_node *nodes;
    uint32_t flags;
    int nodes_seen;
    _Atomic int stopped;
    uint64_t calls, max_bo, wait_ns;
};

/* record_node.c: returns the node of a descriptor, a new one if it is unknown. NULL: out of memory.
 * The pointer is valid while the recorder's lock is held. */
struct sp_record_node *sp_record_node_of(struct sp_record *r, int fd);
/* Returns the node with this number. NULL: all descriptors of that node are closed. */
struct sp_record_node *sp_record_node_numbered(const struct sp_record *r, int number);
void sp_record_node_forget(struct sp_record *r, int fd);

/* record_memory.c: copies this process' memory at any address. Returns the number of bytes that
 * were readable. */
size_t sp_record_peek(void *out, uint64_t address, size_t nbytes);
struct sp_record_bo *sp_record_bo_find(const struct sp_record_node *node, uint32_t handle);
struct sp_record_bo *sp_record_bo_add(struct sp_record_node *node, uint32_t handle, uint64_t nbytes);
void sp_record_bo_drop(struct sp_record *r, struct sp_record_node *node, uint32_t handle);
void sp_record_va(struct sp_record_node *node, const struct drm_amdgpu_gem_va *va);
void sp_record_node_drop(struct sp_record *r, struct sp_record_node *node);
/* Maps at least the first `nbytes` of a BO for the CPU. Returns MAP_FAILED if that is
 * impossible. */
void *sp_record_bo_map(struct sp_record *r, const struct sp_record_node *node, const struct sp_record_bo *bo,
                       uint64_t nbytes);
/* Copies GPU memory from `va` on. Returns the number of bytes that were readable. */
size_t sp_record_gpu(struct sp_record *r, const struct sp_record_node *node, uint64_t va, void *out, size_t nbytes);

/* record_args.c: the names of ioctls, and the memory that their arguments point to. The kernel
 * driver reads that memory (IN), writes it (OUT), or both. */
enum sp_record_way { SP_RECORD_IN = 1, SP_RECORD_OUT = 2 };
struct sp_record_span {
    uint64_t address, nbytes;
    uint32_t way;
};
/* limit of the memory ranges (spans) of one ioctl, enough for a CS with many chunks */
enum { SP_RECORD_SPANS = 200 };
const char *sp_record_name(uint32_t request);
int sp_record_blocks(uint32_t request);
/* Fills `out` with the spans of memory that `argument` points to. Call it before the ioctl. Returns
 * the number of spans. */
uint32_t sp_record_spans(uint32_t request, const void *argument, struct sp_record_span *out);

/* record_ib.c: writes the IBs that a CS names, in the capture format. `entity` receives the entity
 * of the last IB. */
void sp_record_ibs(struct sp_record *r, const struct sp_record_node *node, const union drm_amdgpu_cs *cs,
                   struct drm_amdgpu_cs_chunk_ib *entity);

/* record_pages.c: records the bytes of BOs that have changed since the last call. `who` names the
 * writer: "cpu" or "gpu". */
void sp_record_pages(struct sp_record *r, struct sp_record_node *node, const char *who);
#endif
