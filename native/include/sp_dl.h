/* Vendor drivers found at run time: what a probe tells about them. Nothing is linked against them, nothing is loaded
 * before a probe or a backend asks, and no probe makes a context. */
#ifndef SP_DL_H
#define SP_DL_H
#include "sp_base.h"

/* `library` is what was loaded ("" if nothing was). `report` has a line for each path tried: the path, and what became
 * of it in the loader's words. `devices` has a line a device. Text that does not fit ends in "...". */
struct sp_dl_cuda {
    int32_t init_result;    /* CUresult of cuInit; the fields below it count when this is 0 */
    int32_t driver_version; /* 12040: CUDA 12.4 */
    int32_t device_count;
    char init_name[64];     /* "CUDA_SUCCESS", "CUDA_ERROR_NO_DEVICE" */
    char library[256];
    char report[2048];
    char devices[4096];
};

struct sp_dl_egl {
    int32_t device_count; /* -1: this EGL cannot list devices */
    char version[64];     /* of the client library, "1.5" */
    char library[256];
    char report[2048];
    char devices[4096];
    char extensions[4096]; /* client extensions */
};

/* Where to look, in order: names for the loader or paths, one a line. `paths` NULL means these lists. */
const char *sp_dl_cuda_paths(void);
const char *sp_dl_egl_paths(void);

/* 0: a library serves, `out` says what it answered. -ENOENT: no path could be opened. -ELIBBAD: what could be opened
 * lacks a required symbol (the report names it). A process keeps the first library that served. */
int sp_dl_probe_cuda(const char *paths, struct sp_dl_cuda *out);
int sp_dl_probe_egl(const char *paths, struct sp_dl_egl *out);
#endif
