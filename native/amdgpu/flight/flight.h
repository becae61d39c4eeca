/* Submissions on their way: begun, lined up, ended. */
#ifndef SP_AMDGPU_FLIGHT_H
#define SP_AMDGPU_FLIGHT_H
#include "queue.h"

/* With what is recorded, `records` are there. */
struct sp_flight *sp_flight_begin(struct sp_amdgpu_queue *q, struct sp_recorded *recorded, const void *records, size_t nbytes);
void sp_flight_line_up(struct sp_amdgpu_queue *q, struct sp_flight *f); /* behind the others on their way */
void sp_flight_end(struct sp_amdgpu_queue *q, struct sp_flight *f);
#endif
