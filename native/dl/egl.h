/* The functions of egl.def as `sp_<name>`, callable once sp_egl_library has returned 0. */
#ifndef SP_DL_EGL_H
#define SP_DL_EGL_H
#include "dl.h"

#define SP_SYM(need, result, name, parameters, arguments) result sp_##name parameters;
#define SP_PTR SP_SYM
#include "egl.def"
#undef SP_PTR
#undef SP_SYM

/* Loads libEGL once. Arguments and results are those of sp_dl_load. */
int sp_egl_library(const char *paths, struct sp_text *report, char *path, size_t path_nbytes);
#endif
