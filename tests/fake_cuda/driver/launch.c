/* Launches: "Execution Control". */
#include "../include/fake.h"

#include <stdlib.h>
#include <string.h>

/* "Technical specifications per compute capability": grid 2^31-1 x 65535 x 65535, block 1024 x 1024 x 64. */
static bool shape_is_good(const unsigned grid[3], const unsigned block[3], const struct fk_function *f)
{
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    return grid[0] - 1 < 2147483647u && grid[1] - 1 < 65535 && grid[2] - 1 < 65535 && block[0] - 1 < 1024 &&
           block[1] - 1 < 1024 && block[2] - 1 < 64 && threads <= 1024 && threads <= f->max_threads;
}

static int from_buffer(const struct fk_params *params, void **extra, unsigned char *args)
{
    const void *buffer = NULL;
    size_t nbytes = 0;
    for (; *extra != (void *)CU_LAUNCH_PARAM_END; extra += 2) {
        if ((uintptr_t)*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if ((uintptr_t)*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            nbytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (nbytes < params->nbytes || (params->nbytes && !buffer))
        return CUDA_ERROR_INVALID_VALUE;
    if (params->nbytes)
        memcpy(args, buffer, params->nbytes);
    return 0;
}

static inline void gather(const struct fk_params *params, void **from, unsigned char *args)
{
    for (unsigned i = 0; i < params->count; i++) {
        const unsigned size = params->at[i].size;
        unsigned char *const to = args + params->at[i].offset;
        if (size == 8)
            memcpy(to, from[i], 8);
        else if (size == 4)
            memcpy(to, from[i], 4);
        else
            memcpy(to, from[i], size);
    }
}

static inline int fill(struct fk_context *ctx, struct fk_kernel_op *op, const struct fk_function *f,
                       const unsigned grid[3], const unsigned block[3], unsigned shared, void **params, void **extra)
{
    op->far = NULL;
    if (f->module->ctx != ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (FK_UNLIKELY(!shape_is_good(grid, block, f) || shared > f->max_dynamic_shared))
        return CUDA_ERROR_INVALID_VALUE;
    if (FK_UNLIKELY(!f->kernel))
        return CUDA_ERROR_NOT_SUPPORTED; /* no reference of ours: README.md */
    op->function = f;
    memcpy(op->grid, grid, sizeof op->grid);
    memcpy(op->block, block, sizeof op->block);
    op->shared = shared;
    op->nbytes = f->params.nbytes;
    unsigned char *args = op->near;
    if (FK_UNLIKELY(f->params.nbytes > FK_INLINE)) {
        args = op->far = malloc(f->params.nbytes);
        if (!args)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (extra && params)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra)
        return from_buffer(&f->params, extra, args);
    if (FK_UNLIKELY(!params && f->params.count))
        return CUDA_ERROR_INVALID_VALUE;
    gather(&f->params, params, args);
    return 0;
}

int fk_launch_fill(struct fk_context *ctx, struct fk_kernel_op *op, CUfunction function, const unsigned grid[3],
                   const unsigned block[3], unsigned shared, void **params, void **extra)
{
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    return f ? fill(ctx, op, f, grid, block, shared, params, extra) : CUDA_ERROR_INVALID_HANDLE;
}

static inline int launch(struct fk_context *ctx, CUfunction function, const unsigned grid[3], const unsigned block[3],
                         unsigned shared, CUstream stream, void **params, void **extra)
{
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    struct fk_stream *s;
    if (FK_UNLIKELY(!f))
        return CUDA_ERROR_INVALID_HANDLE;
    int rc = fk_stream_of(ctx, stream, &s);
    if (FK_UNLIKELY(rc != 0))
        return rc;
    struct fk_op *const op = fk_begin(s, fk_run_kernel, FK_COMPUTE, &rc);
    if (FK_UNLIKELY(!op))
        return rc;
    rc = fill(ctx, &op->kernel, f, grid, block, shared, params, extra);
    if (FK_UNLIKELY(rc != 0)) {
        free(op->kernel.far);
        fk_drop(s);
        return rc;
    }
    fk_push(s, op);
    return 0;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    FK_ENTER_CONTEXT(cuLaunchKernel);
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(ctx, function, grid, block, shared, stream, params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    FK_ENTER_CONTEXT(cuLaunchKernelEx);
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(ctx, function, grid, block, config->sharedMemBytes, config->hStream, params, extra);
}

int fk_run_kernel(struct fk_stream *stream, struct fk_op *op)
{
    const struct fk_kernel_op *const k = &op->kernel;
    const struct fk_launch launched = {stream->ctx, k->grid, k->block, k->far ? k->far : k->near};
    const int rc = fk_kernel_fault(stream, k->function->name);
    return rc ? rc : k->function->kernel->run(&launched);
}
