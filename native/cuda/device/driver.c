/* Starts the CUDA driver, converts its errors, and sets a thread's capture mode. */
#include "driver.h"

#include "core/base.h"
#include "include/sp_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Size in bytes of each thread's error text. The text is found by a pthread key, because a
 * thread-local variable of this size has a drawback in every TLS model. A library that is loaded at
 * run time has little room for variables of the model initial-exec. The other models need
 * __tls_get_addr, and so would link this library to the dynamic loader. */
enum { WORDS_NBYTES = 1024 };
static pthread_key_t words_key;
/* 0 if words_key could not be made: a process has at most PTHREAD_KEYS_MAX (1024) keys */
static int has_key;
static pthread_once_t words_once = PTHREAD_ONCE_INIT;
_Thread_local void *sp_cuda_current __attribute__((tls_model("initial-exec")));
_Thread_local void *sp_cuda_theirs __attribute__((tls_model("initial-exec")));
_Thread_local int sp_cuda_their_mode __attribute__((tls_model("initial-exec"))) = -1;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int started, started_rc;
static uint32_t started_generation;

static void make_key(void)
{
    has_key = pthread_key_create(&words_key, free) == 0;
}

/* Returns this thread's error text. Returns NULL if there is no memory for it, or if the process
 * has no pthread key left. */
static char *words(void)
{
    pthread_once(&words_once, make_key);
    if (!has_key)
        return NULL;
    char *own = pthread_getspecific(words_key);
    if (!own && (own = calloc(1, WORDS_NBYTES)) && pthread_setspecific(words_key, own)) {
        free(own);
        own = NULL;
    }
    return own;
}

void sp_cu_say(const char *format, ...)
{
    char *why = words();
    va_list list;
    va_start(list, format);
    if (why)
        vsnprintf(why, WORDS_NBYTES, format, list);
    va_end(list);
}

void sp_cu_say_nothing(void)
{
    char *why = words();
    if (why)
        why[0] = '\0';
}

size_t sp_cuda_why(char *out, size_t capacity)
{
    const char *why = words();
    size_t nbytes = !why ? 0 : strlen(why) < capacity ? strlen(why) : capacity;
    memcpy(out, nbytes ? why : "", nbytes);
    return nbytes;
}

int sp_cu_is_sticky(int result)
{
    /* "Data types used by CUDA driver" says: after these errors the context is unusable, or the
     * process must end */
    switch (result) {
    case CU_ECC_UNCORRECTABLE:
    case CU_NVLINK_UNCORRECTABLE:
    case CU_CONTAINED:
    case CU_ILLEGAL_ADDRESS:
    case CU_LAUNCH_TIMEOUT:
    case CU_CONTEXT_IS_DESTROYED:
    case CU_ASSERT:
    case CU_TENSOR_MEMORY_LEAK:
    case CU_MPS_CLIENT_TERMINATED:
    case CU_EXTERNAL_DEVICE:
    case CU_DEINITIALIZED:
        return 1;
    default:
        return result >= CU_HARDWARE_STACK_ERROR && result <= CU_LAUNCH_FAILED;
    }
}

static int code_of(int result)
{
    switch (result) {
    case CU_INVALID_VALUE:
        return EINVAL;
    case CU_OUT_OF_MEMORY:
        return ENOMEM;
    case CU_NOT_INITIALIZED:
        return sp_cuda_forked() ? ECHILD : ENODEV;
    case CU_NO_DEVICE:
    case CU_INVALID_DEVICE:
        return ENODEV;
    case CU_INVALID_IMAGE:
    case CU_NO_BINARY_FOR_GPU:
    case CU_INVALID_PTX:
    case CU_JIT_COMPILER_NOT_FOUND:
    case CU_UNSUPPORTED_PTX_VERSION:
    case CU_JIT_COMPILATION_DISABLED:
    case CU_INVALID_SOURCE:
        return ENOEXEC;
    case CU_NOT_FOUND:
        return ENOENT;
    case CU_LAUNCH_OUT_OF_RESOURCES:
        return E2BIG;
    case CU_HOST_MEMORY_ALREADY_REGISTERED:
        return EEXIST;
    case CU_NOT_SUPPORTED:
    case SP_CU_MISSING:
        return EOPNOTSUPP;
    default:
        return sp_cu_is_sticky(result) ? ENODEV : EIO;
    }
}

static void say_missing(void)
{
    int wanted, have = 0;
    const char *name = sp_cu_missed(&wanted);
    sp_cuDriverGetVersion(&have);
    sp_cu_say("%s: the driver supports CUDA %d.%d; the function needs CUDA %d.%d", name, have / 1000,
              have % 1000 / 10, wanted / 1000, wanted % 1000 / 10);
}

int sp_cu_rc(const char *call, int result)
{
    const char *name = NULL, *text = NULL;
    if (result == CU_OK)
        return 0;
    if (result == SP_CU_MISSING) {
        say_missing();
        return -EOPNOTSUPP;
    }
    if (sp_cuGetErrorName(result, &name) != CU_OK || name == NULL)
        name = "an unknown error";
    if (sp_cuGetErrorString(result, &text) != CU_OK || text == NULL)
        text = "";
    sp_cu_say("%s: %s (%d)%s%s", call, name, result, *text ? ": " : "", text);
    return -code_of(result);
}

int sp_cuda_forked(void)
{
    return started && started_generation != sp_fork_generation();
}

int sp_cuda_start(const char *paths)
{
    char report[2048], path[256];
    struct sp_text text = sp_text_in(report, sizeof report);
    if (sp_cuda_forked()) {
        sp_cu_say("this process was forked from the one that loaded the CUDA driver");
        return -ECHILD;
    }
    pthread_mutex_lock(&start_lock);
    int rc = sp_cuda_load(paths, &text, path, sizeof path);
    if (rc) {
        sp_cu_say("no CUDA driver library: %s", report);
    } else {
        rc = started && started_rc == 0 ? 0 : SP_CU_RC(cuInit, 0);
        started = 1;
        started_rc = rc;
        started_generation = sp_fork_generation();
    }
    pthread_mutex_unlock(&start_lock);
    return rc;
}

void sp_cuda_relax(void)
{
    int mode = CU_CAPTURE_RELAXED;
    if (sp_cuda_their_mode < 0 && sp_cuThreadExchangeStreamCaptureMode(&mode) == CU_OK)
        sp_cuda_their_mode = mode;
}

void sp_cuda_restore(void)
{
    void *theirs = sp_cuda_theirs;
    int mode = sp_cuda_their_mode;
    sp_cuda_theirs = NULL;
    sp_cuda_their_mode = -1;
    if (mode >= 0)
        sp_cuThreadExchangeStreamCaptureMode(&mode);
    if (theirs && sp_cuCtxSetCurrent(theirs) == CU_OK)
        sp_cuda_current = theirs;
}
