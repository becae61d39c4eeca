/* The library that is loaded before a foreign driver (LD_PRELOAD) and shows it emulated cards. */
#ifndef SP_PRELOAD_H
#define SP_PRELOAD_H
#include <dlfcn.h>

#define SP_HOOK __attribute__((visibility("default")))

/* The function that ours stands before, looked up once. */
#define SP_NEXT(function) \
    ({ \
        static void *found; \
        if (!__atomic_load_n(&found, __ATOMIC_RELAXED)) \
            __atomic_store_n(&found, dlsym(RTLD_NEXT, #function), __ATOMIC_RELAXED); \
        (__typeof__(&(function)))found; \
    })

/* Starts the machine that SPARKLE_EMU names on the first call; 0 when there is none, and everything passes us by. */
int sp_preload_ready(void);
/* Opens a card's render node: a descriptor, or -1 and errno. */
int sp_preload_open(int card, int flags);
/* The card that a descriptor is open on, or -1. */
int sp_preload_card(int fd);
/* record.c: SPARKLE_EMU=record[:CHIPS]. What of SPARKLE_EMU names chips: `wanted` itself unless it asks for a recording, NULL
 * where that is of real cards. */
const char *sp_preload_recorded(const char *wanted);
/* Begins the recording that was asked for, over the machine's calls or, with NULL, the kernel's own: 0 or -errno. */
struct sp_kmd_ops;
int sp_preload_record(const struct sp_kmd_ops *machine);
/* Where it is written, as SPARKLE_RECORD says. */
const char *sp_preload_record_path(void);
/* The calls that write themselves down; NULL when nothing is recorded. */
const struct sp_kmd_ops *sp_preload_record_ops(void);
/* A descriptor was opened or is about to be closed. */
void sp_preload_record_forget(int fd);
#endif
