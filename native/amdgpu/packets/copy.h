/* Functions that encode a copy or a fill, from the submission's cursor (struct sp_cursor) on.
 * Each function returns 0 at the end of the record, SP_JOB_FULL if the rest needs another job,
 * or -errno. */
#ifndef SP_AMDGPU_COPY_H
#define SP_AMDGPU_COPY_H
#include "ib.h"

int sp_encode_copy(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes);
int sp_encode_fill(struct sp_job *job, const struct sp_cmd_fill *f);
int sp_copy_overlaps(const struct sp_cmd_copy *c);
#endif
