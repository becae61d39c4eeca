#include "gl.h"

#include "egl.h"

#include <errno.h>
#include <string.h>

#define SP_DEF "gl.def"
#include "table.inc"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        sp_dl_fn fn = sp_eglGetProcAddress(symbols[i].name);
        memcpy(symbols[i].slot, &fn, sizeof fn);
    }
}

void sp_gl_load(void)
{
    pthread_once(&once, load);
}
