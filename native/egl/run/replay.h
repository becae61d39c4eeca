/* Runs the records of a job. Only the owner thread calls this. */
#ifndef SP_EGL_REPLAY_H
#define SP_EGL_REPLAY_H
#include "egl/device/jobs.h"

void sp_egl_run_job(struct sp_egl *dev, struct sp_egl_job *job, uint64_t now_ns);
#endif
