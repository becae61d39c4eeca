/* Copies memory to the host (a download). Submits the first pieces at once. Each further piece is
 * submitted when an earlier one arrives. */
#include "cuda/flight/submission.h"
#include "cuda/progress/enter.h"
#include "cuda/progress/staging.h"

int64_t sp_cuda_download(struct sp_cuda_queue *q, uint64_t address, void *data, uint64_t nbytes)
{
    struct sp_cuda_flight *f;
    int rc = sp_cuda_queue_enter(q, SP_ANY_EPOCH), large = nbytes > (uint64_t)SP_CUDA_SLOTS * SP_CUDA_PIECE_NBYTES;
    if (rc)
        return rc;
    if (nbytes == 0)
        return sp_cuda_queue_leave(q, (int64_t)sp_queue_newest(&q->q));
    void *last = q->stream;
    rc = sp_cuda_transfer_begin(q, (uint64_t)(uintptr_t)data, address, nbytes, &f);
    if (rc == 0) {
        f->rest_nbytes = nbytes;
        f->rest_src = address;
        f->rest_out = data;
        rc = sp_cuda_pieces(q, f, SP_CUDA_SLOTS, !large, &last);
    }
    if (rc || !large)
        return sp_cuda_queue_leave(q, sp_cuda_transfer_end(q, f, last, rc));
    q->open = f;
    atomic_fetch_add(&q->dev->open_downloads, 1);
    return sp_cuda_queue_leave(q, sp_cuda_flight_list(q, f));
}
