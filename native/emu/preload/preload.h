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
#endif
