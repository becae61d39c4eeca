/* libcuda: the paths to try, and the look-up of its functions. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct sp_cu_table sp_cu_table;
static _Thread_local const struct sp_dl_symbol *missed __attribute__((tls_model("initial-exec")));

static const struct sp_dl_symbol symbols[] = {
#define SP_CU(need, version, name, parameters, arguments) {#name, SP_DL_##need, &sp_cu_table.name, version},
#include "cuda.def"
#undef SP_CU
};

/* Copies a function's name without its ABI suffix such as "_v2": cuGetProcAddress takes that
 * name. */
static void base_name(const char *name, char *out, size_t nbytes)
{
    snprintf(out, nbytes, "%s", name);
    char *suffix = strrchr(out, '_');
    if (suffix != NULL && suffix[1] == 'v' && suffix[2] >= '0' && suffix[2] <= '9')
        *suffix = '\0';
}

/* Looks up a function by cuGetProcAddress_v2 (CUDA 12.0), else by cuGetProcAddress (11.3), else by
 * dlsym. dlsym is not tried after a failure of cuGetProcAddress, because the driver knows which
 * functions it supports. */
static sp_dl_fn find(void *handle, const struct sp_dl_symbol *symbol)
{
    int (*second)(const char *, void **, int, uint64_t, int *) = NULL;
    int (*first)(const char *, void **, int, uint64_t) = NULL;
    void *at = dlsym(handle, "cuGetProcAddress_v2"), *address = NULL;
    char name[64];
    int status, rc = 0;

    base_name(symbol->name, name, sizeof name);
    if (at != NULL) {
        memcpy(&second, &at, sizeof at);
        rc = second(name, &address, symbol->version, 0, &status);
    } else if ((at = dlsym(handle, "cuGetProcAddress")) != NULL) {
        memcpy(&first, &at, sizeof at);
        rc = first(name, &address, symbol->version, 0);
    } else {
        address = dlsym(handle, symbol->name);
    }
    sp_dl_fn fn = NULL;
    if (rc == 0)
        memcpy(&fn, &address, sizeof address);
    return fn;
}

/* The dynamic loader finds libcuda in the usual places. WSL and some containers keep the driver
 * elsewhere. */
static struct sp_dl_library library = {
    .paths = "libcuda.so.1\n/usr/lib/wsl/lib/libcuda.so.1\n/usr/local/nvidia/lib64/libcuda.so.1",
    .symbols = symbols,
    .nsymbols = sizeof symbols / sizeof symbols[0],
    .find = find,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const char *sp_dl_cuda_paths(void)
{
    return library.paths;
}

int sp_cuda_load(const char *paths, struct sp_text *report, char *path, size_t path_nbytes)
{
    return sp_dl_load(&library, paths, report, path, path_nbytes);
}

int sp_cuda_emulated(void)
{
    return library.handle != NULL && dlsym(library.handle, "sparkle_emulated") != NULL;
}

int sp_cu_missing(const char *name)
{
    for (size_t i = 0; i < library.nsymbols; i++)
        if (strcmp(symbols[i].name, name) == 0)
            missed = &symbols[i];
    return SP_CU_MISSING;
}

const char *sp_cu_missed(int *version)
{
    *version = missed != NULL ? missed->version : 0;
    return missed != NULL ? missed->name : "";
}
