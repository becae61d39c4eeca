/* Reports of probes for vendor drivers, which are found at run time. Nothing is linked against
 * them. Nothing is loaded before a probe or a backend asks, and no probe makes a context. */
#ifndef SP_DL_H
#define SP_DL_H
#include "sp_base.h"

/* `library` is the path that was loaded ("" if none was). `report` has a line for each path tried:
 * the path and the loader's message. `devices` has a line for each device. Text that does not fit
 * ends in "...". */
struct sp_dl_cuda {
    int32_t init_result;    /* CUresult of cuInit; the fields below it are valid if this is 0 */
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

/* Search order: loader names or paths, one a line. `paths` NULL means these lists. */
const char *sp_dl_cuda_paths(void);
const char *sp_dl_egl_paths(void);

/* 0: a library works; `out` has its answers. -ENOENT: no path could be opened. -ELIBBAD: the
 * library lacks a required symbol (the report names it). A process keeps the first library that
 * worked. */
int sp_dl_probe_cuda(const char *paths, struct sp_dl_cuda *out);
int sp_dl_probe_egl(const char *paths, struct sp_dl_egl *out);
#endif
