#include "cuda.h"

#include <errno.h>

#define SP_DEF "cuda.def"
#include "table.inc"

/* The loader knows the usual places; WSL and some containers keep the driver elsewhere. */
static struct sp_dl_library library = {
    .paths = "libcuda.so.1\n/usr/lib/wsl/lib/libcuda.so.1\n/usr/local/nvidia/lib64/libcuda.so.1",
    .symbols = symbols,
    .nsymbols = sizeof symbols / sizeof symbols[0],
    .getproc = NULL,
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
