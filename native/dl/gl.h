/* The functions of gl.def as `sp_<name>`. They may be called after sp_gl_load has run with a
 * current context. */
#ifndef SP_DL_GL_H
#define SP_DL_GL_H
#include "dl.h"

typedef void sp_gl_debug_fn(uint32_t source, uint32_t type, uint32_t id, uint32_t severity, int32_t length,
                            const char *message, const void *context);

#define SP_SYM(need, result, name, parameters, arguments) result sp_##name parameters;
#define SP_PTR SP_SYM
#define SP_VOID(need, name, parameters, arguments) void sp_##name parameters;
#include "gl.def"
#undef SP_VOID
#undef SP_PTR
#undef SP_SYM

/* Looks up all functions through EGL, once per process: their addresses do not depend on the
 * context. */
void sp_gl_load(void);
#endif
