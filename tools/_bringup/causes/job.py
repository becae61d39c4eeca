"""Likely causes on amdgpu where work is submitted: jobs that do not end, wrong results.

Each cause has a source. "F 9" is section 9 of docs/AMDGPU_FACTS.md; a table in docs/bringup.md
names the sources of the sections.
"""

from __future__ import annotations

from .matching import AGAIN, INFO, LOG, MEM, VRAM_USED, Cause

JOBS = (
    Cause(
        "never-signalled",
        "the job is not ended, or its syncobj not signalled: the engine hangs, or interrupts do "
        "not arrive",
        "F 1.3, 8",
        call="SYNCOBJ_WAIT|SYNCOBJ_TIMELINE_WAIT",
        errno="ETIME",
        next="grep amdgpu /proc/interrupts",
    ),
    Cause(
        "reset-under-way",
        "the GPU was reset during this rung; another program's job may have caused it",
        "F 1.6, 8",
        when=lambda f: f.get("reset") and (not f.get("vram_lost")),
        next=LOG,
    ),
    Cause(
        "vram-lost",
        "a reset lost VRAM's contents: a new context must upload all of them again",
        "F 8 (VRAMLOST)",
        when=lambda f: f.get("vram_lost"),
        weight=3,
        next=LOG,
    ),
    Cause(
        "job-hung",
        "the job exceeded the kernel driver's limit and was ended: this engine does not "
        "execute its packets",
        "F 8 (-ETIME)",
        call="AMDGPU_WAIT_CS|AMDGPU_CS",
        errno="ETIME",
        next=LOG,
    ),
    Cause(
        "context-cancelled",
        "an earlier job of this context, or a reset, ended it",
        "F 8",
        call="AMDGPU_WAIT_CS|AMDGPU_CS",
        errno="ECANCELED",
        next=LOG,
    ),
    Cause(
        "soft-recovered",
        "the kernel killed this job's waves (soft recovery)",
        "F 8 (-ENODATA)",
        call="AMDGPU_WAIT_CS|AMDGPU_CS",
        errno="ENODATA",
        next=LOG,
    ),
    Cause(
        "page-fault",
        "the GPU met an address without a page or without the right: see GPUVM_FAULT in the dump",
        "F 1.10, 8",
        when=lambda f: f.get("gpuvm_fault") and f.get("raised") == "IoctlError",
        weight=1,
        next="dmesg | grep -i -A8 'page fault'",
    ),
    Cause(
        "unplugged",
        "the card is gone: removed, fallen off the bus, or its driver unbound",
        "F 8 (-ENODEV)",
        errno="ENODEV",
        weight=4,
        next="lspci -nn | grep 1002:; " + LOG,
    ),
    Cause(
        "accel-busy",
        "the kernel gave up on acceleration after a reset that failed",
        "F 8 (-EBUSY)",
        errno="EBUSY",
        next=LOG,
    ),
    Cause(
        "ras",
        "uncorrectable memory errors: RAS stopped all jobs",
        "F 8 (-EHWPOISON)",
        errno="EHWPOISON",
        weight=2,
        next=LOG,
    ),
    Cause(
        "cs-refused",
        "the submission is malformed for this kernel: IB alignment, ring or chunk",
        "F 1.8",
        call="AMDGPU_CS",
        errno="EINVAL",
        next="dmesg -w, then: echo 0x1 > /sys/module/drm/parameters/debug",
    ),
    Cause(
        "cs-no-memory",
        "the kernel has no room for the job's buffers; transient, RADV retries",
        "F 1.8 (-ENOMEM)",
        call="AMDGPU_CS",
        errno="ENOMEM",
        next=VRAM_USED,
    ),
    Cause(
        "no-interrupts",
        "jobs run, but their end is not reported: interrupts do not arrive (MSI, IOMMU), "
        "or the fence is not written",
        "F 6.1, 9 rung 6",
        rungs=("nop-*", "fences"),
        call="AMDGPU_WAIT_CS",
        when=lambda f: f.get("late"),
        next="grep amdgpu /proc/interrupts",
    ),
    Cause(
        "ring-stuck",
        "the ring does not fetch: its microcode hangs or the engine is powered off",
        "F 8, 10",
        rungs=("nop-*",),
        when=lambda f: f.get("late") or f.get("hung"),
        weight=-1,
        next=LOG,
    ),
    Cause(
        "never-done",
        "the job is not ended: the packet or wave under test hangs this engine",
        "F 8",
        rungs=("*",),
        when=lambda f: f.get("late"),
        weight=-2,
        next=LOG,
    ),
    Cause(
        "fence-not-written",
        "the kernel driver's fence is signalled, but the word of the FENCE chunk is not written:"
        " CPU and GPU disagree about that memory",
        "F 1.8 (FENCE), 6.1",
        rungs=("fences",),
        when=lambda f: f.get("no_fence"),
        next=AGAIN + "fences,release-mem",
    ),
    Cause(
        "early-fence",
        "a fence is signalled before the job's work is done",
        "F 3.5, 3.6",
        when=lambda f: f.get("early"),
        next=AGAIN + "fences,queue-order",
    ),
    Cause(
        "call-hangs",
        "a call of the kernel driver does not return: a reset under way that "
        "deadlocks, or a dead bus",
        "F 8",
        when=lambda f: f.get("hung"),
        weight=1,
        next="cat /proc/$(pgrep -f bringup)/stack; " + LOG,
    ),
    Cause(
        "ioctl-interrupted",
        "signals arrive faster than the call can be repeated",
        "F 1.1",
        errno="EINTR|EAGAIN",
        next="strace -f -e trace=ioctl",
    ),
    Cause(
        "no-wait",
        "WAIT_REG_MEM does not wait: the microcode reads something else",
        "F 3.3",
        rungs=("wait-reg-mem",),
        when=lambda f: f.get("no_wait"),
        next=INFO,
    ),
    Cause(
        "timeline-broken",
        "the kernel's timeline syncobjs do not count",
        "F 1.3",
        rungs=("timeline",),
        when=lambda f: f.get("bad_timeline"),
        next="uname -r",
    ),
)

WORK = (
    Cause(
        "not-visible",
        "no data arrived: written elsewhere, or left in a cache that the CPU does not see",
        "F 6",
        when=lambda f: f.get("unwritten") and f.get("mismatch"),
        weight=3,
        next=AGAIN + "write-data,release-mem,sdma-copy",
    ),
    Cause(
        "gcr-hangs",
        "the copy engine's microcode stops at GCR_REQ, the packet that the kernel driver emits for "
        "EMIT_MEM_SYNC: it is older than the kernel driver expects",
        "F 6.1, 7",
        rungs=("sdma-gcr",),
        errno="ETIME",
        weight=1,
        next="ls -l /lib/firmware/amdgpu/*sdma*; python tools/bringup.py info -d {device}",
    ),
    Cause(
        "gcr-stale",
        "the copy engine reads old bytes of a cache: EMIT_MEM_SYNC does nothing there, as for SDMA "
        "5.2 before Linux 5.13",
        "F 6.1",
        rungs=("sdma-gcr",),
        when=lambda f: f.get("mismatch"),
        weight=2,
        next="uname -r",
    ),
    Cause(
        "userptr-slow",
        "the kernel checks each page of listed host memory, and slowly: pages are swapped or "
        "moved meanwhile, or small where huge ones were possible",
        "F 1.4, 1.8",
        rungs=("userptr-cost",),
        when=lambda f: f.get("slow_userptr"),
        next="cat /sys/kernel/mm/transparent_hugepage/enabled; vmstat 1 5",
    ),
    Cause(
        "sdma-corrupts",
        "the copy engine moves data wrongly: its microcode, or the memory behind it",
        "F 7",
        rungs=("sdma-*", "mem-hidden"),
        when=lambda f: f.get("mismatch"),
        next=MEM,
    ),
    Cause(
        "cp-corrupts",
        "the command processor writes other data than its packet has",
        "F 3.3",
        rungs=("write-data*", "copy-data", "release-mem", "chained-ib", "nested-ib"),
        when=lambda f: f.get("mismatch"),
        next=AGAIN + "mem-gtt,write-data",
    ),
    Cause(
        "release-lost",
        "RELEASE_MEM's write at the end of the pipe does not arrive, so the packet that "
        "waits for it waits for ever: its event, data or interrupt select, or the caches before it",
        "F 3.5",
        rungs=("release-mem",),
        errno="ETIME",
        weight=1,
        next="python tools/pm4.py decode dumps/{rung}.ibs.txt",
    ),
    Cause(
        "ids-order",
        "ids of groups or threads are handed over in another order: TGID and TIDIG of RSRC2, or "
        "where the ids are packed (one VGPR from gfx11 on, three before)",
        "F 4.3, 5.2",
        rungs=("ids-3d",),
        when=lambda f: f.get("mismatch"),
        weight=1,
        next="python tools/pm4.py decode dumps/{rung}.ibs.txt",
    ),
    Cause(
        "half-waves",
        "waves of 64 run as two independent halves: CS_W32_EN of the "
        "dispatch, or the code is for waves of 32",
        "F 4.3, 5.2",
        rungs=("wave64",),
        when=lambda f: f.get("mismatch"),
        weight=1,
        next="python tools/pm4.py decode dumps/{rung}.ibs.txt",
    ),
    Cause(
        "wrong-code",
        "waves run other code, or with other registers: instruction cache, RSRC1/2, user SGPRs",
        "F 4, 5.2",
        rungs=("store*", "ids-3d", "wave64", "atomics", "dispatch-order"),
        when=lambda f: f.get("mismatch"),
        next="python tools/pm4.py lint dumps/{rung}.ibs.txt",
    ),
    Cause(
        "code-in-vram",
        "waves do not run code that the CPU wrote to VRAM through the BAR: the HDP is not emptied "
        "before an IB, or the window shows other memory",
        "F 6.1, 6.3",
        rungs=("code-placement",),
        when=lambda f: f.get("code_heap") == "vram",
        weight=3,
        next=AGAIN + "mem-visible,store,store-vram,code-placement",
    ),
    Cause(
        "lds-size",
        "LDS_SIZE of RSRC2 is wrong, or barriers do not hold",
        "F 5.3",
        rungs=("lds-barrier",),
        when=lambda f: f.get("mismatch"),
        next="python tools/pm4.py decode dumps/{rung}.ibs.txt",
    ),
    Cause(
        "scratch-set-up",
        "TMPRING_SIZE, the scratch base or its descriptor is wrong",
        "F 5.5",
        rungs=("scratch", "scratch-per-se"),
        when=lambda f: f.get("mismatch"),
        next="python tools/pm4.py decode dumps/{rung}.ibs.txt",
    ),
    Cause(
        "scratch-slots",
        "an engine has fewer scratch slots than WAVES of TMPRING_SIZE was assumed to give: the "
        "card counts other engines than DEV_INFO, or its WAVES covers the whole card and not one "
        "engine",
        "F 5.5",
        rungs=("scratch-per-se",),
        errno="ETIME",
        weight=1,
        next="python tools/pm4.py decode dumps/{rung}.ibs.txt",
    ),
    Cause(
        "bad-cu",
        "one compute unit computes wrongly: overheated, undervolted or broken",
        "D stress",
        rungs=("stress", "api-*"),
        when=lambda f: f.get("mismatch"),
        next=AGAIN + "stress",
    ),
    Cause(
        "prime-refused",
        "export or import is refused: a BO that belongs to one VM, or no dma-buf",
        "F 1.13",
        rungs=("prime-self",),
        call="PRIME_*",
        errno="*",
        next="uname -r",
    ),
    Cause(
        "ring-dead",
        'the kernel counted its reset as a success but left the ring dead ("comp_1.1.0 reset '
        'succeeded", then a page fault of CPC at address 0: seen on Linux 6.17). The package uses '
        "the other rings; another kernel helps",
        "F 8, 10 (ROCm 5997, 6127)",
        rungs=("reset-canary",),
        when=lambda f: f.get("dead_ring"),
        weight=3,
        next="uname -r; dmesg | grep -i -e 'ring reset' -e 'reset succeeded' -e CPC",
    ),
    Cause(
        "no-recovery",
        "the GPU did not come back: recovery is off (amdgpu.gpu_recovery=0), or the reset failed",
        "F 8",
        rungs=("hang-*", "reset-canary", "after-hangs"),
        weight=4,
        next="cat /sys/module/amdgpu/parameters/gpu_recovery; " + LOG,
    ),
    Cause(
        "backend",
        "every lower rung passed, so the fault is in this package: report it with --bundle",
        "D",
        rungs=("api-*",),
        weight=-3,
        next="python tools/bringup.py ladder -d {device} --bundle b.tar.gz",
    ),
)

ANY = (
    Cause(
        "no-space-for-fd",
        "too many open files",
        "errno(3)",
        errno="EMFILE|ENFILE",
        next="ulimit -n",
    ),
    Cause(
        "no-permission",
        "the kernel refuses this call to this user",
        "F 1.1, 1.6",
        errno="EACCES|EPERM",
        weight=-1,
        next="id; ls -l /dev/dri",
    ),
    Cause(
        "not-known-ioctl",
        "this kernel or driver has no such ioctl",
        "F 1.1",
        errno="ENOTTY|ENOSYS",
        next="uname -r",
    ),
    Cause(
        "no-memory",
        "the kernel has no memory for this",
        "F 1.8",
        errno="ENOMEM",
        weight=-1,
        next="free -m; " + LOG,
    ),
    Cause(
        "kernel-log",
        "the kernel's log has the reason",
        "F 8",
        weight=-9,
        next=LOG,
    ),
)
