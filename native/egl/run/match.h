/* Compares a linked program with the signature of its arguments. */
#ifndef SP_EGL_MATCH_H
#define SP_EGL_MATCH_H
#include "dl/dl.h"
#include "kernel.h"

/* Compares a program with the signature, and fills in the blocks and uniforms of `k`. Returns 0, or
 * -ENOEXEC with the reason in `why`. Only the owner thread calls this. */
int sp_egl_match(struct sp_egl *dev, struct sp_egl_kernel *k, const char *letters, struct sp_text *why);
#endif
