/* The driver's errors about a queue's work. Callers hold the queue's lock. */
#ifndef SP_CUDA_FAILURE_H
#define SP_CUDA_FAILURE_H
#include "cuda/device/driver.h"
#include "queue.h"

/* Keeps this thread's error text for a failed submission. */
void sp_cuda_keep_words(struct sp_cuda_queue *q, uint64_t value);
/* Converts a CUresult to -errno. A sticky error marks the device as lost and names the running
 * kernels. */
int sp_cuda_failed(struct sp_cuda_queue *q, const char *call, int result);
#define SP_CUDA_Q(q, name, ...) sp_cuda_failed(q, #name, sp_##name(__VA_ARGS__))
void sp_cuda_fail_all(struct sp_cuda_queue *q); /* the device is lost: everything in flight fails */
#endif
