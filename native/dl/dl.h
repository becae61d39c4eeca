/* Loads a shared library at run time and fills a table with its functions.
 *
 * A .def file describes a library, one function a line:
 *     SP_SYM(need, result, name, (parameters), (arguments))    result is an integer
 *     SP_PTR(need, result, name, (parameters), (arguments))    result is a pointer
 *     SP_VOID(need, name, (parameters), (arguments))           no result
 * `need` is `required`, `optional` or `getproc` (enum sp_dl_need). The macros expand each line to
 * three things: a function pointer in the table, an entry in the loader's list of symbols, and a
 * wrapper `sp_<name>`. If the library lacks the function, the wrapper returns -ENOSYS, or NULL for
 * a pointer; without a result, it does nothing. No vendor header is needed, because handles are
 * opaque pointers and a changed function gets a new name (such as cuMemAlloc_v2). */
#ifndef SP_DL_LOADER_H
#define SP_DL_LOADER_H
#include "include/sp_dl.h"
#include <pthread.h>

enum sp_dl_need {
    SP_DL_optional = 0,
    SP_DL_required = 1, /* a library without this symbol is refused */
    SP_DL_getproc = 2   /* may be missing; the library's own look-up function finds it, not dlsym */
};

struct sp_dl_symbol {
    const char *name;
    enum sp_dl_need need;
    void *slot;  /* address of the function pointer in the table */
    int version; /* passed to `find`; 0 for a library without versions */
};

typedef void (*sp_dl_fn)(void);

struct sp_dl_library {
    const char *paths; /* paths or loader names, one a line */
    const struct sp_dl_symbol *symbols;
    size_t nsymbols;
    /* Looks up the symbols that are marked SP_DL_getproc, once the loader has looked up all other
     * symbols. NULL if no symbol of the library is marked so. */
    sp_dl_fn (*getproc)(const char *name);
    /* Looks up one symbol. The loader calls `find` for each symbol that is not marked
     * SP_DL_getproc. If `find` is NULL, the loader calls dlsym instead. */
    sp_dl_fn (*find)(void *handle, const struct sp_dl_symbol *symbol);
    pthread_mutex_t lock;
    void *handle;
    char path[256];
};

/* Text of bounded size, which ends in "..." if it was cut. */
struct sp_text {
    char *at;
    size_t capacity;
    size_t used;
};
struct sp_text sp_text_in(char *buffer, size_t capacity);
void sp_text_add(struct sp_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Tries `paths` (NULL: the library's own list) in order until a library works. Returns at once if a
 * library is already loaded. sp_dl.h lists the results. `path` receives the loaded path, or "". A
 * loaded library is never closed, because drivers do not survive dlclose. */
int sp_dl_load(struct sp_dl_library *lib, const char *paths, struct sp_text *report, char *path, size_t path_nbytes);
#endif
