/* "Module Management", and what "Execution Control" asks of functions. */
#include "../include/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fk_module *modules;

static void unload(struct fk_module *module)
{
    for (struct fk_function *f = module->image.functions, *next; f; f = next) {
        next = f->next;
        fk_handle_free(f->handle);
        free(f->name);
        free(f);
    }
    for (struct fk_variable *v = module->image.variables, *next; v; v = next) {
        next = v->next;
        if (v->address)
            fk_heap_free(v->address, FK_DEVICE);
        free(v->name);
        free(v);
    }
    fk_handle_free(module->handle);
    free(module);
}

static void forget(struct fk_module *module)
{
    pthread_mutex_lock(&lock);
    for (struct fk_module **at = &modules; *at; at = &(*at)->next)
        if (*at == module) {
            *at = module->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    unload(module);
}

void fk_modules_drop_context(struct fk_context *ctx)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        struct fk_module *found = modules;
        while (found && found->ctx != ctx)
            found = found->next;
        pthread_mutex_unlock(&lock);
        if (!found)
            return;
        forget(found);
    }
}

/* Handles for functions, memory for variables. */
static int finish(struct fk_module *module)
{
    for (struct fk_function *f = module->image.functions; f; f = f->next) {
        f->module = module;
        f->max_dynamic_shared = 49152 > f->shared ? 49152 - f->shared : 0;
        if (!(f->handle = fk_handle_new(FK_FUNCTION, f)))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (struct fk_variable *v = module->image.variables; v; v = v->next) {
        const int rc = v->nbytes ? fk_heap_alloc(module->ctx, NULL, v->nbytes, &v->address) : 0;
        if (rc != 0)
            return rc;
        memset((void *)(uintptr_t)v->address, 0, v->nbytes);
    }
    return 0;
}

static int load(struct fk_context *ctx, CUmodule *out, const void *image, char *log, size_t log_nbytes)
{
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct fk_module *const module = calloc(1, sizeof *module);
    if (!module || !(module->handle = fk_handle_new(FK_MODULE, module)))
        return free(module), CUDA_ERROR_OUT_OF_MEMORY;
    module->ctx = ctx;
    int rc = memcmp(image, "\177ELF", 4) == 0 ? fk_cubin_read(image, ctx->device, &module->image)
                                              : fk_ptx_read(image, ctx->device, &module->image);
    if (rc == 0)
        rc = finish(module);
    snprintf(log, log_nbytes, "%s", module->image.log);
    if (rc != 0) {
        unload(module);
        return rc;
    }
    pthread_mutex_lock(&lock);
    module->next = modules;
    modules = module;
    pthread_mutex_unlock(&lock);
    *out = module->handle;
    return 0;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    char log[sizeof ((struct fk_image *)0)->log];
    FK_ENTER_CONTEXT(cuModuleLoadData);
    return load(ctx, module, image, log, sizeof log);
}

/* The log goes where the options say; the size option comes back with what was written. */
static void write_log(const char *log, unsigned count, const int *options, void **values, int buffer, int size)
{
    char *to = NULL;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == buffer)
            to = values[i];
    for (unsigned i = 0; i < count; i++)
        if (options[i] == size) {
            const size_t room = (unsigned)(uintptr_t)values[i];
            size_t n = strlen(log);
            n = room == 0 ? 0 : n < room - 1 ? n : room - 1;
            if (to && room) {
                memcpy(to, log, n);
                to[n] = '\0';
            }
            values[i] = (void *)(n ? n + 1 : 0);
        }
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values)
{
    char log[sizeof ((struct fk_image *)0)->log] = "";
    FK_ENTER_CONTEXT(cuModuleLoadDataEx);
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = load(ctx, module, image, log, sizeof log);
    write_log(log, count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    write_log(rc ? "" : "ptxas info    : nothing to compile in the fake driver", count, options, values,
              CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
    return rc;
}

CUresult cuModuleUnload(CUmodule module)
{
    FK_ENTER_CONTEXT(cuModuleUnload);
    struct fk_module *const m = fk_object(module, FK_MODULE);
    if (!m || m->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    fk_context_wait(ctx); /* a kernel of it may be running */
    forget(m);
    return 0;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    FK_ENTER_CONTEXT(cuModuleGetFunction);
    const struct fk_module *const m = fk_object(module, FK_MODULE);
    (void)ctx;
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    for (const struct fk_function *f = m->image.functions; f; f = f->next)
        if (strcmp(f->name, name) == 0) {
            *function = f->handle;
            return 0;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *nbytes, CUmodule module, const char *name)
{
    FK_ENTER_CONTEXT(cuModuleGetGlobal_v2);
    const struct fk_module *const m = fk_object(module, FK_MODULE);
    (void)ctx;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    for (const struct fk_variable *v = m->image.variables; v; v = v->next)
        if (strcmp(v->name, name) == 0) {
            if (address)
                *address = v->address;
            if (nbytes)
                *nbytes = v->nbytes;
            return 0;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    FK_ENTER_CONTEXT(cuModuleGetFunctionCount);
    const struct fk_module *const m = fk_object(module, FK_MODULE);
    (void)ctx;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = 0;
    for (const struct fk_function *f = m->image.functions; f; f = f->next)
        ++*count;
    return 0;
}

CUresult cuModuleGetLoadingMode(int *mode)
{
    FK_ENTER(cuModuleGetLoadingMode);
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 1; /* CU_MODULE_EAGER_LOADING */
    return 0;
}

/* ---- functions ---- */

/* CUfunction_attribute */
enum { MAX_THREADS = 0, SHARED = 1, CONST = 2, LOCAL = 3, REGISTERS = 4, PTX = 5, BINARY = 6, CACHE = 7,
       MAX_DYNAMIC_SHARED = 8, CARVEOUT = 9 };
enum { SHARED_OPTIN = 232448 }; /* of compute capability 9.0 */

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    FK_ENTER(cuFuncGetAttribute);
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case MAX_THREADS: *value = (int)f->max_threads; return 0;
    case SHARED: *value = (int)f->shared; return 0;
    case CONST:
    case LOCAL:
    case CACHE: *value = 0; return 0;
    case REGISTERS: *value = (int)f->registers; return 0;
    case PTX: *value = f->module->image.ptx_version; return 0;
    case BINARY: *value = f->module->image.binary_version; return 0;
    case MAX_DYNAMIC_SHARED: *value = (int)f->max_dynamic_shared; return 0;
    case CARVEOUT: *value = -1; return 0;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    FK_ENTER(cuFuncSetAttribute);
    struct fk_function *const f = fk_object(function, FK_FUNCTION);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CARVEOUT)
        return value >= -1 && value <= 100 ? 0 : CUDA_ERROR_INVALID_VALUE;
    if (attribute != MAX_DYNAMIC_SHARED || value < 0 || (unsigned)value + f->shared > SHARED_OPTIN)
        return CUDA_ERROR_INVALID_VALUE;
    f->max_dynamic_shared = (unsigned)value;
    return 0;
}

CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
    FK_ENTER(cuFuncSetCacheConfig);
    if (!fk_object(function, FK_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    return config >= 0 && config <= 3 ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    FK_ENTER(cuFuncGetModule);
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    *module = f->module->handle;
    return 0;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    FK_ENTER(cuFuncGetName);
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = f->name;
    return 0;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *nbytes)
{
    FK_ENTER(cuFuncGetParamInfo);
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= f->params.count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->params.at[index].offset;
    if (nbytes)
        *nbytes = f->params.at[index].size;
    return 0;
}

static int occupancy(int *blocks, CUfunction function, int block_size, size_t shared)
{
    const struct fk_function *const f = fk_object(function, FK_FUNCTION);
    if (!blocks || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    const unsigned warps = ((unsigned)block_size + 31) / 32;
    const size_t each = f->shared + shared + 1024; /* the system keeps 1 KiB a block */
    unsigned n = 64 / warps;                       /* warps a multiprocessor */
    n = n < 65536 / (f->registers * 32 * warps) ? n : 65536 / (f->registers * 32 * warps);
    n = n < 233472 / each ? n : (unsigned)(233472 / each);
    n = n < 32 ? n : 32;
    *blocks = (unsigned)block_size > f->max_threads ? 0 : (int)n;
    return 0;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size, size_t shared)
{
    FK_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    return occupancy(blocks, function, block_size, shared);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                              size_t shared, unsigned flags)
{
    FK_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : occupancy(blocks, function, block_size, shared);
}
