#include "egl.h"

#include <errno.h>

#define SP_DEF "egl.def"
#include "table.inc"

static struct sp_dl_library library = {
    .paths = "libEGL.so.1\nlibEGL.so",
    .symbols = symbols,
    .nsymbols = sizeof symbols / sizeof symbols[0],
    .getproc = sp_eglGetProcAddress,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

const char *sp_dl_egl_paths(void)
{
    return library.paths;
}

int sp_egl_library(const char *paths, struct sp_text *report, char *path, size_t path_nbytes)
{
    return sp_dl_load(&library, paths, report, path, path_nbytes);
}
