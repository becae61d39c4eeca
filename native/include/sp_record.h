/* Writing down what a program asks of an AMD GPU's kernel driver: a `struct sp_kmd_ops` around another one. Used by the preload
 * library for foreign programs and by sparkle_drv.amd.record.recorder for our own; the file's form is described in
 * docs/recording.md. */
#ifndef SP_RECORD_H
#define SP_RECORD_H
#include "sp_kmd.h"

enum sp_record_flags {
    SP_RECORD_MEMORY = 1, /* also what the CPU and each job changed in BOs; every CS is then waited for */
    SP_RECORD_SHARED = 2  /* the path may be in use by another process: then PATH.PID is written */
};

struct sp_record_options {
    uint32_t flags;      /* enum sp_record_flags */
    uint32_t pad;
    uint64_t max_nbytes; /* the recording stops, the program goes on; 0: 1 GiB */
    uint64_t max_bo;     /* BOs up to this have their memory written down; 0: 64 MiB */
    uint64_t wait_ns;    /* for one job, with SP_RECORD_MEMORY; 0: 10 s */
};

struct sp_record;
/* `next` makes the calls, and lives longer. `path` is made when the first amdgpu node is seen; a file that cannot be written
 * is found out here: -errno; -EPERM: this process may not read its own memory by process_vm_readv. */
int sp_record_open(const struct sp_kmd_ops *next, const char *path, const struct sp_record_options *options,
                   struct sp_record **out);
/* Ends the recording: 0, or -errno of the first write that failed (-EFBIG: max_nbytes was reached). Its ops go on and write
 * nothing; `*open` (may be NULL) is how many nodes are open through them. */
int sp_record_stop(struct sp_record *record, uint32_t *open);
/* After sp_record_stop, when nobody has the ops any more. */
void sp_record_free(struct sp_record *record);
const struct sp_kmd_ops *sp_record_ops(struct sp_record *record);
/* 0, or why no more is written down, as of sp_record_stop. */
int sp_record_state(struct sp_record *record);
/* Descriptor `fd` was closed, or opened anew, by other means than the ops. */
void sp_record_forget(struct sp_record *record, int fd);
#endif
