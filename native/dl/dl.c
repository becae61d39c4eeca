#include "dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct sp_text sp_text_in(char *buffer, size_t capacity)
{
    buffer[0] = '\0';
    return (struct sp_text){buffer, capacity, 0};
}

void sp_text_add(struct sp_text *text, const char *format, ...)
{
    size_t room = text->capacity - text->used;
    va_list list;

    va_start(list, format);
    int length = vsnprintf(text->at + text->used, room, format, list);
    va_end(list);
    if (length < 0)
        return;
    if ((size_t)length < room) {
        text->used += (size_t)length;
    } else {
        text->used = text->capacity - 1;
        memcpy(text->at + text->capacity - 4, "...", 4);
    }
}

static void clear(const struct sp_dl_library *lib)
{
    sp_dl_fn none = NULL;

    for (size_t i = 0; i < lib->nsymbols; i++)
        memcpy(lib->symbols[i].slot, &none, sizeof none);
}

/* Fills the library's table of function pointers. Returns the name of a required symbol that is
 * missing, or NULL if none is. */
static const char *resolve(const struct sp_dl_library *lib, void *handle)
{
    for (size_t i = 0; i < lib->nsymbols; i++) {
        const struct sp_dl_symbol *symbol = &lib->symbols[i];
        if (symbol->need == SP_DL_getproc)
            continue;
        void *address = NULL;
        if (lib->find != NULL) {
            sp_dl_fn found = lib->find(handle, symbol);
            memcpy(&address, &found, sizeof found);
        } else {
            address = dlsym(handle, symbol->name);
        }
        if (address == NULL && symbol->need == SP_DL_required)
            return symbol->name;
        memcpy(symbol->slot, &address, sizeof address);
    }
    for (size_t i = 0; i < lib->nsymbols && lib->getproc != NULL; i++) {
        const struct sp_dl_symbol *symbol = &lib->symbols[i];
        if (symbol->need != SP_DL_getproc)
            continue;
        sp_dl_fn fn = lib->getproc(symbol->name);
        memcpy(symbol->slot, &fn, sizeof fn);
    }
    return NULL;
}

/* Tries to load the library from `path`. Returns 0; -ENOENT if the path cannot be opened; -ELIBBAD
 * if it lacks a required symbol. */
static int try_path(struct sp_dl_library *lib, const char *path, struct sp_text *report)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        size_t named = strlen(path);
        if (why == NULL)
            why = "cannot be opened";
        if (strncmp(why, path, named) == 0 && strncmp(why + named, ": ", 2) == 0)
            why += named + 2; /* skips the path, which the loader's message repeats */
        sp_text_add(report, "%s: %s\n", path, why);
        return -ENOENT;
    }
    const char *missing = resolve(lib, handle);
    if (missing != NULL) {
        sp_text_add(report, "%s: has no symbol %s\n", path, missing);
        clear(lib);
        dlclose(handle);
        return -ELIBBAD;
    }
    sp_text_add(report, "%s: loaded\n", path);
    lib->handle = handle;
    snprintf(lib->path, sizeof lib->path, "%s", path);
    return 0;
}

int sp_dl_load(struct sp_dl_library *lib, const char *paths, struct sp_text *report, char *path, size_t path_nbytes)
{
    int rc = -ENOENT;

    pthread_mutex_lock(&lib->lock);
    if (lib->handle != NULL) {
        sp_text_add(report, "%s: loaded\n", lib->path);
        rc = 0;
    }
    for (const char *at = paths != NULL ? paths : lib->paths; *at != '\0' && lib->handle == NULL;) {
        char one[sizeof lib->path];
        size_t length = strcspn(at, "\n");
        if (length >= sizeof one) {
            sp_text_add(report, "%.40s...: a path this long is not supported\n", at);
        } else if (length > 0) { /* dlopen("") would return a handle of this program */
            memcpy(one, at, length);
            one[length] = '\0';
            int tried = try_path(lib, one, report);
            if (rc != -ELIBBAD || tried == 0)
                rc = tried;
        }
        at += length + (at[length] == '\n');
    }
    snprintf(path, path_nbytes, "%s", lib->path);
    pthread_mutex_unlock(&lib->lock);
    return rc;
}
