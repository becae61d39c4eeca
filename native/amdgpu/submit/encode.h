/* From command records to packets. */
#ifndef SP_AMDGPU_ENCODE_H
#define SP_AMDGPU_ENCODE_H
#include "amdgpu/packets/ib.h"

/* Goes on from the flight's cursor: 0 to the end of the records, SP_JOB_FULL, or -errno. */
int sp_encode(struct sp_job *job, const void *records, size_t nbytes);
#endif
