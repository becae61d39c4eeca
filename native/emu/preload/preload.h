/* The library that is loaded before a foreign driver (LD_PRELOAD) and shows the driver emulated
 * cards. */
#ifndef SP_PRELOAD_H
#define SP_PRELOAD_H
#include <dlfcn.h>

#define SP_HOOK __attribute__((visibility("default")))

/* The C library's function that a hook replaces, looked up once. */
#define SP_NEXT(function) \
    ({ \
        static void *found; \
        if (!__atomic_load_n(&found, __ATOMIC_RELAXED)) \
            __atomic_store_n(&found, dlsym(RTLD_NEXT, #function), __ATOMIC_RELAXED); \
        (__typeof__(&(function)))found; \
    })

/* Starts the machine that SPARKLE_EMU names, at the first call. Returns 0 if there is no machine:
 * then all calls go to the C library's own functions. */
int sp_preload_ready(void);
/* Opens a card's render node. Returns a descriptor, or -1 and errno. */
int sp_preload_open(int card, int flags);
/* Returns the card whose render node a descriptor is open on, or -1. */
int sp_preload_card(int fd);
/* record.c: returns the part of SPARKLE_EMU (`wanted`) that names chips. With "record:CHIPS" that
 * part follows the colon. NULL for "record": real cards are recorded. */
const char *sp_preload_recorded(const char *wanted);
/* sp_preload_record begins the recording that SPARKLE_EMU requests. It records the calls to
 * `machine`, or to the real kernel driver if `machine` is NULL. Returns 0 or -errno. */
struct sp_kmd_ops;
int sp_preload_record(const struct sp_kmd_ops *machine);
/* Returns the path of the recording: SPARKLE_RECORD, or the default. */
const char *sp_preload_record_path(void);
/* Returns the functions that make each call of `struct sp_kmd_ops` and record it, or NULL if there
 * is no recording. */
const struct sp_kmd_ops *sp_preload_record_ops(void);
/* Tells the recorder that a descriptor was opened or is about to be closed, so that it forgets the
 * descriptor's former node. */
void sp_preload_record_forget(int fd);
#endif
