/* The table of calls, and cuGetProcAddress: "Driver Entry Point Access". */
#include "../include/fake.h"

#include <string.h>

struct fk_call fk_calls[FK_CALLS] = {
#define FK_SYM(symbol, base_name, version)                                                                             \
    [FK_##symbol] = {.name = #symbol, .base = base_name, .since = version, .address = (void *)symbol},
#include "../include/symbols.def"
#undef FK_SYM
};

struct fk_call *fk_call_named(const char *name)
{
    struct fk_call *found = NULL; /* by its base name the newest is meant */
    for (int i = 0; i < FK_CALLS; i++) {
        if (strcmp(fk_calls[i].name, name) == 0)
            return &fk_calls[i];
        if (strcmp(fk_calls[i].base, name) == 0 && (!found || fk_calls[i].since > found->since))
            found = &fk_calls[i];
    }
    return found;
}

enum { FOUND = 0, NOT_FOUND = 1, NOT_SUFFICIENT = 2 }; /* CUdriverProcAddressQueryResult */
enum { PER_THREAD_DEFAULT_STREAM = 2 };

static int look_up(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
    const struct fk_call *best = NULL;
    *status = NOT_FOUND;
    if (!symbol || !pfn || version > fk_settings.driver)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = NULL;
    if (flags & PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (version >= 12000 && strcmp(symbol, "cuGraphInstantiate") == 0)
        symbol = "cuGraphInstantiateWithFlags"; /* what CUDA 12 means by that name */
    for (int i = 0; i < FK_CALLS; i++) {
        const struct fk_call *const call = &fk_calls[i];
        if (strcmp(call->base, symbol) != 0 || call->missing || call->since > fk_settings.driver)
            continue;
        if (call->since > version) {
            if (!best)
                *status = NOT_SUFFICIENT;
        } else if (!best || call->since > best->since) {
            best = call;
        }
    }
    if (best) {
        *pfn = best->address;
        *status = FOUND;
    }
    return 0;
}

/* The first form, of CUDA 11.3, has no status: what is not there is an error. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
    int status;
    FK_ENTER_ANYTIME(cuGetProcAddress);
    const int rc = look_up(symbol, pfn, version, flags, &status);
    return rc == 0 && status != FOUND ? CUDA_ERROR_NOT_FOUND : rc;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
    int unasked;
    FK_ENTER_ANYTIME(cuGetProcAddress_v2);
    return look_up(symbol, pfn, version, flags, status ? status : &unasked);
}
