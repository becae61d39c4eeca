/* Slots of a flight: page-locked memory for pieces. Callers hold the queue's lock. */
#ifndef SP_CUDA_SLOTS_H
#define SP_CUDA_SLOTS_H
#include "queue.h"

/* A new last slot; 0 or -errno. */
int sp_cuda_slot_add(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t nbytes, struct sp_cuda_slot **out);
/* The oldest slot becomes the last. */
struct sp_cuda_slot *sp_cuda_slot_turn(struct sp_cuda_flight *f);
/* The oldest slot goes. */
void sp_cuda_slot_drop(struct sp_cuda_queue *q, struct sp_cuda_flight *f);
#endif
