/* A recorder of the calls to an AMD GPU's kernel driver: a `struct sp_kmd_ops` around another one.
 * The preload library uses it for foreign programs, sparkle_drv.amd.record.recorder for this
 * project's own. docs/recording.md describes the file's format. */
#ifndef SP_RECORD_H
#define SP_RECORD_H
#include "sp_kmd.h"

enum sp_record_flags {
    /* also records the bytes that the CPU or a job changed in BOs, before and after each job; so
     * the recorder waits for the end of each job */
    SP_RECORD_MEMORY = 1,
    SP_RECORD_SHARED = 2 /* if another process writes the file PATH, this one writes PATH.PID */
};

struct sp_record_options {
    uint32_t flags; /* enum sp_record_flags */
    uint32_t pad;
    /* limit of the file's size; when it is reached, recording stops and the program goes on; 0:
     * 1 GiB */
    uint64_t max_nbytes;
    uint64_t max_bo;  /* BOs larger than this are recorded without their memory; 0: 64 MiB */
    uint64_t wait_ns; /* with SP_RECORD_MEMORY: most ns of the wait for one job; 0: 10 s */
};

struct sp_record;
/* Opens a recorder. `next` makes the calls and must outlive the recorder. The file at `path` is
 * created when the first amdgpu node is seen. Returns 0; -errno if the file cannot be written;
 * -EPERM if this process may not read its own memory by process_vm_readv. */
int sp_record_open(const struct sp_kmd_ops *next, const char *path, const struct sp_record_options *options,
                   struct sp_record **out);
/* Ends the recording. Returns 0, or -errno of the first write that failed (-EFBIG if max_nbytes was
 * reached). The functions of sp_record_ops still pass calls on, but record nothing. `*open` (may be
 * NULL) receives the number of amdgpu nodes that were opened through these functions and are still
 * open. */
int sp_record_stop(struct sp_record *record, uint32_t *open);
/* Frees a recorder. To be called after sp_record_stop, when no caller uses the functions of
 * sp_record_ops any more. */
void sp_record_free(struct sp_record *record);
const struct sp_kmd_ops *sp_record_ops(struct sp_record *record);
/* Returns 0 while the recorder records, else the error that stopped it, as sp_record_stop does. */
int sp_record_state(struct sp_record *record);
/* Tells the recorder that descriptor `fd` was closed or opened anew by calls that did not go
 * through sp_record_ops. */
void sp_record_forget(struct sp_record *record, int fd);
#endif
