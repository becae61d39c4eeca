/* The library that is loaded before a foreign driver (LD_PRELOAD) and shows it emulated cards. */
#ifndef SP_PRELOAD_H
#define SP_PRELOAD_H
#include <dlfcn.h>

#define SP_HOOK __attribute__((visibility("default")))

/* The function that a hook replaces, looked up once. */
#define SP_NEXT(function) \
    ({ \
        static void *found; \
        if (!__atomic_load_n(&found, __ATOMIC_RELAXED)) \
            __atomic_store_n(&found, dlsym(RTLD_NEXT, #function), __ATOMIC_RELAXED); \
        (__typeof__(&(function)))found; \
    })

/* Starts the machine that SPARKLE_EMU names, at the first call. 0: no machine; all calls pass
 * through. */
int sp_preload_ready(void);
/* Opens a card's render node: a descriptor, or -1 and errno. */
int sp_preload_open(int card, int flags);
/* The card that a descriptor is open on, or -1. */
int sp_preload_card(int fd);
/* record.c: SPARKLE_EMU=record[:CHIPS]. The part of SPARKLE_EMU that names chips: all of `wanted`
 * unless it asks for a recording. NULL: a recording of real cards. */
const char *sp_preload_recorded(const char *wanted);
/* Begins the requested recording, of the machine's calls or, with NULL, the kernel's. 0 or
 * -errno. */
struct sp_kmd_ops;
int sp_preload_record(const struct sp_kmd_ops *machine);
/* Path of the recording, from SPARKLE_RECORD. */
const char *sp_preload_record_path(void);
/* The recording calls; NULL: no recording. */
const struct sp_kmd_ops *sp_preload_record_ops(void);
/* A descriptor was opened or is about to be closed. */
void sp_preload_record_forget(int fd);
#endif
