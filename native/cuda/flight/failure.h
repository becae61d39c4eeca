/* Handles the driver's errors about a queue's work. The caller of each function holds the queue's
 * lock. */
#ifndef SP_CUDA_FAILURE_H
#define SP_CUDA_FAILURE_H
#include "cuda/device/driver.h"
#include "queue.h"

/* Keeps this thread's error text for the failed submission with this timeline value. */
void sp_cuda_keep_words(struct sp_cuda_queue *q, uint64_t value);
/* Converts a CUresult to 0 or -errno. A sticky error marks the device as lost, with the names of
 * the running kernels as the reason. */
int sp_cuda_failed(struct sp_cuda_queue *q, const char *call, int result);
#define SP_CUDA_Q(q, name, ...) sp_cuda_failed(q, #name, sp_##name(__VA_ARGS__))
/* ends everything in flight with an error, after the loss of the device */
void sp_cuda_fail_all(struct sp_cuda_queue *q);
#endif
