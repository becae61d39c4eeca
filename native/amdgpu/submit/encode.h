/* Encodes command records as packets. */
#ifndef SP_AMDGPU_ENCODE_H
#define SP_AMDGPU_ENCODE_H
#include "amdgpu/packets/ib.h"

/* Encodes from the flight's cursor on. 0: all records are done. SP_JOB_FULL. -errno. */
int sp_encode(struct sp_job *job, const void *records, size_t nbytes);
#endif
