/* Looks for vendor drivers at run time. A function sp_dl_probe_* loads a driver's library and asks
 * it for its version and devices, but makes no context. Nothing is linked against a vendor library.
 * A library is loaded only when such a function or a backend needs it. */
#ifndef SP_DL_H
#define SP_DL_H
#include "sp_base.h"

/* What sp_dl_probe_cuda found. `library` is the path of the driver library that was loaded, "" if
 * none was. `report` has a line for each path tried: the path and the loader's message. `devices`
 * has a line for each device. Text that does not fit ends in "...". */
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

/* These functions return the default search order of driver libraries: library names or paths, one
 * a line. A `paths` of NULL means this list. */
const char *sp_dl_cuda_paths(void);
const char *sp_dl_egl_paths(void);

/* Loads a driver library from `paths` and asks it for its version and devices. Returns 0 if a
 * library works, with what it reports in `out`; -ENOENT if no path could be opened; -ELIBBAD if the
 * library lacks a required symbol, which out->report names. A process keeps the first library that
 * worked. */
int sp_dl_probe_cuda(const char *paths, struct sp_dl_cuda *out);
int sp_dl_probe_egl(const char *paths, struct sp_dl_egl *out);
#endif
