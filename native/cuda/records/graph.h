/* Runs a list of commands as a CUDA graph, if the list is submitted again. */
#ifndef SP_CUDA_GRAPH_H
#define SP_CUDA_GRAPH_H
#include "cuda/flight/queue.h"

/* Runs the records as a graph. Returns 1 if the graph was launched or failed, with the result in
 * `*rc`. Returns 0 if there is no graph for these records yet. */
int sp_cuda_run_graph(struct sp_cuda_queue *q, struct sp_cuda_flight *f, int *rc);
void sp_cuda_graphs_drop(struct sp_cuda_queue *q);
#endif
