/* What the driver says of a queue's work that failed. Callers hold the queue's lock. */
#ifndef SP_CUDA_FAILURE_H
#define SP_CUDA_FAILURE_H
#include "cuda/device/driver.h"
#include "queue.h"

/* Keeps this thread's words about a submission that failed. */
void sp_cuda_keep_words(struct sp_cuda_queue *q, uint64_t value);
/* -errno for a CUresult; one that says the device is gone loses it, with the names of what ran. */
int sp_cuda_failed(struct sp_cuda_queue *q, const char *call, int result);
#define SP_CUDA_Q(q, name, ...) sp_cuda_failed(q, #name, sp_##name(__VA_ARGS__))
void sp_cuda_fail_all(struct sp_cuda_queue *q); /* the device is lost, and so is what was on its way */
#endif
