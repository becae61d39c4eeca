/* Compares a linked program with the signature of its arguments. */
#ifndef SP_EGL_MATCH_H
#define SP_EGL_MATCH_H
#include "dl/dl.h"
#include "kernel.h"

/* Fills in the program's blocks and uniforms. Returns 0, or -ENOEXEC with the reason in `why`. Only
 * the owner thread calls it. */
int sp_egl_match(struct sp_egl *dev, struct sp_egl_kernel *k, const char *letters, struct sp_text *why);
#endif
