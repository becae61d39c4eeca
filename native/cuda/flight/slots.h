/* Slots of a flight: page-locked memory for pieces. Callers hold the queue's lock. */
#ifndef SP_CUDA_SLOTS_H
#define SP_CUDA_SLOTS_H
#include "queue.h"

/* Appends a slot. 0 or -errno. */
int sp_cuda_slot_add(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t nbytes, struct sp_cuda_slot **out);
/* Moves the oldest slot to the end. */
struct sp_cuda_slot *sp_cuda_slot_turn(struct sp_cuda_flight *f);
/* Removes the oldest slot. */
void sp_cuda_slot_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
