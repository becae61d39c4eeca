/* Slots of a flight: page-locked memory for the pieces of a transfer. The caller of each function
 * holds the queue's lock. */
#ifndef SP_CUDA_SLOTS_H
#define SP_CUDA_SLOTS_H
#include "queue.h"

/* Appends a slot of `nbytes` to the flight. Returns 0 or -errno. */
int sp_cuda_slot_add(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t nbytes, struct sp_cuda_slot **out);
/* Moves the oldest slot to the end of the list, and returns it for the next piece of a transfer. */
struct sp_cuda_slot *sp_cuda_slot_turn(struct sp_cuda_flight *f);
/* Removes the oldest slot from the flight, and frees it. */
void sp_cuda_slot_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
