/* Encodes command records as packets. */
#ifndef SP_AMDGPU_ENCODE_H
#define SP_AMDGPU_ENCODE_H
#include "amdgpu/packets/ib.h"

/* Encodes the records that the submission's cursor (struct sp_cursor) has not passed yet.
 * Returns 0 after the last record, SP_JOB_FULL if the rest needs another job, or -errno. */
int sp_encode(struct sp_job *job, const void *records, size_t nbytes);
#endif
