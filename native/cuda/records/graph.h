/* Resubmitted lists as graphs. */
#ifndef SP_CUDA_GRAPH_H
#define SP_CUDA_GRAPH_H
#include "cuda/flight/queue.h"

/* Runs the records as a graph. 1: done, or failed with `*rc`. 0: no graph exists, or not yet. */
int sp_cuda_run_graph(struct sp_cuda_queue *q, struct sp_cuda_flight *f, int *rc);
void sp_cuda_graphs_drop(struct sp_cuda_queue *q);
#endif
