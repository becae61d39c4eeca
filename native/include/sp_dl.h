/* Probes for vendor drivers, which are found at run time. Nothing is linked against a vendor
 * library. None is loaded before a probe or a backend asks for it, and no probe makes a context. */
#ifndef SP_DL_H
#define SP_DL_H
#include "sp_base.h"

/* The result of a probe. `library` is the path that was loaded, "" if none was. `report` has a line
 * for each path tried: the path and the loader's message. `devices` has a line for each device.
 * Text that does not fit ends in "...". */
struct sp_dl_cuda {
    int32_t init_result;    /* CUresult of cuInit; the fields below are valid if it is 0 */
    int32_t driver_version; /* 12040 stands for CUDA 12.4 */
    int32_t device_count;
    char init_name[64]; /* such as "CUDA_SUCCESS" or "CUDA_ERROR_NO_DEVICE" */
    char library[256];
    char report[2048];
    char devices[4096];
};

struct sp_dl_egl {
    int32_t device_count; /* -1: this EGL cannot list devices */
    char version[64];     /* version of the client library, such as "1.5" */
    char library[256];
    char report[2048];
    char devices[4096];
    char extensions[4096]; /* EGL's client extensions */
};

/* Return the default search order: names for the loader or paths, one a line. A `paths` of NULL
 * means this list. */
const char *sp_dl_cuda_paths(void);
const char *sp_dl_egl_paths(void);

/* Probes for a driver. Returns 0 if a library works, with its answers in `out`; -ENOENT if no path
 * could be opened; -ELIBBAD if the library lacks a required symbol, which the report names. A
 * process keeps the first library that worked. */
int sp_dl_probe_cuda(const char *paths, struct sp_dl_cuda *out);
int sp_dl_probe_egl(const char *paths, struct sp_dl_egl *out);
#endif
