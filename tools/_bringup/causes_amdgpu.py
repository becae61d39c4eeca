"""Likely causes on amdgpu. Sources: F n is AMDGPU_FACTS section n (its own sources: the kernel,
Mesa, PAL, ROCr, IGT, issue trackers); D is docs/bringup.md, which explains each.

More than 400 lines would be no surprise here: it is one table.
"""

from __future__ import annotations

from .causes import Cause

LOG = "dmesg | grep -i -e amdgpu -e drm | tail -50"
AGAIN = "python tools/bringup.py ladder --only "
INFO = "python tools/bringup.py info"

NODE = (
    Cause("no-driver", "the amdgpu kernel module is not loaded, or knows no card of this machine",
          "F 9", ("node",), when=lambda f: f.get("no_dri"),
          next="lspci -nnk | grep -A3 -i -e vga -e display; lsmod | grep amdgpu"),
    Cause("container", "this is a container or virtual machine without the device nodes",
          "F 9 (amdsmi #184, amdgpu_top #92)", ("node",), when=lambda f: f.get("no_dri"), weight=-1,
          next="run the container with --device /dev/dri --group-add $(stat -c %g /dev/dri/renderD128)"),
    Cause("no-card", "there is no AMD GPU in this machine, or the BIOS has it off",
          "F 9", ("node",), when=lambda f: f.get("no_dri"), weight=-2, next="lspci -nn | grep 1002:"),
    Cause("no-such-node", "the path names no node; nodes are numbered anew at each boot",
          "F 1.1", ("node",), when=lambda f: f.get("no_node"), next="ls -l /dev/dri /dev/dri/by-path"),
    Cause("fewer-cards", "the card is another number, or another driver has it",
          "F 9", ("node",), when=lambda f: f.get("other_driver"), next="ls -l /dev/dri/by-path"),
    Cause("not-in-group", "the user is not in the group that the node belongs to (render or video)",
          "F 9 (EACCES, EPERM opening renderD*)", ("node",), "open", "EACCES|EPERM",
          when=lambda f: not f.get("in_group"),
          next="sudo usermod -aG render,video $USER, then log in again"),
    Cause("device-cgroup", "a container's device rules forbid the node to who may open it by its mode",
          "F 9 (unsloth PR 10473)", ("node",), "open", "EACCES|EPERM",
          next="run the container with --device /dev/dri"),
    Cause("node-gone", "the card was removed, or its driver let go of it", "F 8 (-ENODEV)", ("node",),
          "open", "ENODEV|ENXIO|ENOENT", next=LOG),
    Cause("other-driver", "the node belongs to another card: choose the one that amdgpu drives",
          "F 9 rung 1", ("version",), when=lambda f: f.get("driver", "amdgpu") != "amdgpu",
          next="grep -H DRIVER= /sys/class/drm/renderD*/device/uevent"),
    Cause("old-kernel", "a kernel before Linux 5.3 (KMS 3.32)", "F 1.11", ("version",),
          when=lambda f: f.get("old"), next="uname -r"),
    Cause("no-timeline", "a kernel without (timeline) syncobjs", "F 1.3, 1.11", ("caps",),
          when=lambda f: f.get("no_timeline"), next="uname -r"),
)

INFO_RUNGS = (
    Cause("accel-off", "the driver gave up on the engines when it loaded (a failed ring test, missing "
          "firmware), or after a reset that failed", "F 1.10, 9 rung 2", ("accel",),
          when=lambda f: f.get("no_accel"), next=LOG),
    Cause("wrong-family", "DEV_INFO's family and the IP version disagree: the card is passed off as "
          "another, or the kernel does not know it", "F 1.10", ("device",),
          when=lambda f: f.get("wrong_family"), next=INFO),
    Cause("unsupported", "a chip of a generation whose packets are not declared here", "F 4",
          ("device",), when=lambda f: f.get("unsupported"), next=INFO),
    Cause("no-cus", "the kernel says that no compute unit works: harvest fuses or VBIOS were misread",
          "F 1.10", ("device",), when=lambda f: f.get("no_cus"), next=LOG),
    Cause("info-garbled", "INFO's numbers contradict each other: a kernel that does not know this "
          "chip, or a damaged VBIOS", "F 1.10", ("device", "memory-info"),
          when=lambda f: f.get("bad_info"), next=LOG),
    Cause("ring-off", "the kernel has this engine off (available_rings is 0): its ring test failed at "
          "load, its firmware is missing, or it hung and could not be reset", "F 1.10, 9",
          ("rings",), when=lambda f: f.get("ring_off"), next=LOG),
    Cause("user-queues-only", "amdgpu.user_queue=2 leaves kernel queues out", "F 1.12", ("rings",),
          when=lambda f: f.get("ring_off"), weight=-1,
          next="cat /sys/module/amdgpu/parameters/user_queue"),
    Cause("no-firmware", "microcode is missing from /lib/firmware/amdgpu, or older than this chip",
          "F 10", ("firmware",), when=lambda f: f.get("no_firmware"),
          next="dmesg | grep -i firmware; ls /lib/firmware/amdgpu"),
    Cause("no-heap", "VRAM or GTT has no size: memory training or the VBIOS failed", "F 6.3",
          ("memory-info",), when=lambda f: f.get("no_memory"), next=LOG),
    Cause("bar-256", "the BAR is the legacy 256 MiB: resizable BAR is off in the BIOS (Above 4G "
          "Decoding, Re-Size BAR), or a bridge has no room", "F 6.3, 9", ("bar",),
          when=lambda f: f.get("small_bar") and f.get("visible", 0) <= 256 << 20,
          next="lspci -vv | grep -A2 -i 'resizable bar'"),
    Cause("bar-small", "the BAR is smaller than VRAM: the BIOS gave less than the card asks for",
          "F 6.3", ("bar",), when=lambda f: f.get("small_bar"),
          next="lspci -vv | grep -A2 -i 'resizable bar'"),
    Cause("clock-stopped", "the reference clock stands, or the GPU sleeps (GFXOFF, runtime PM, D3)",
          "F 3.5, 10 (GFXOFF on Raphael)", ("clock", "timestamps", "sdma-fence"),
          when=lambda f: f.get("bad_clock"), next="cat /sys/class/drm/renderD*/device/power_state"),
    Cause("too-hot", "the fan stands or the cooler has no contact", "F 1.10", ("sensors",),
          when=lambda f: f.get("too_hot"), next="sensors"),
)  # fmt: skip

MEMORY = (
    Cause("bad-memory-bit", "one data line or cell: a bad memory chip, or its solder", "D mem",
          ("mem-*",), when=lambda f: f.get("one_bit"), next="python tools/bringup.py mem"),
    Cause("bad-memory", "memory or its controller: overclocked, undervolted, or aliased address lines",
          "D mem", ("mem-*",), when=lambda f: f.get("mismatch"), next="python tools/bringup.py mem"),
    Cause("vram-full", "VRAM or GTT is full: other programs hold it", "F 1.8", call="AMDGPU_GEM_CREATE",
          errno="ENOMEM", next="cat /sys/class/drm/renderD*/device/mem_info_vram_used"),
    Cause("memlock", "the locked-memory limit (ulimit -l) or the memory cgroup is too small",
          "F 1.4", call="AMDGPU_GEM_USERPTR|mmap", errno="ENOMEM|EPERM|EAGAIN",
          next="ulimit -l; cat /sys/fs/cgroup/memory.max"),
    Cause("userptr-off", "the kernel was built without MMU notifiers (CONFIG_HMM_MIRROR): no userptr",
          "F 1.4", ("userptr",), "AMDGPU_GEM_USERPTR", "ENODEV|ENOSYS|EINVAL|EOPNOTSUPP",
          next="grep HMM_MIRROR /boot/config-$(uname -r)"),
    Cause("flag-unknown", "this kernel does not know the flag or domain", "F 1.4 (whitelists), 9",
          call="AMDGPU_GEM_CREATE", errno="EINVAL", next="uname -r"),
    Cause("not-cleared", "the kernel did not clear memory of others before it gave it out",
          "F 1.4 (VRAM_CLEARED is forced)", ("bo-*",), when=lambda f: f.get("not_cleared"), next=LOG),
    Cause("lenient-kernel", "the kernel takes what it must refuse: a patched or emulated kernel",
          "F 1.4, 1.5", when=lambda f: f.get("taken"), next="uname -a"),
    Cause("va-range", "the address is outside DEV_INFO's range, taken already, or not aligned",
          "F 1.5, 2", call="AMDGPU_GEM_VA", errno="EINVAL", next=INFO),
    Cause("page-tables", "no memory for page tables: GTT or VRAM is full", "F 1.5", ("va-*",),
          "AMDGPU_GEM_VA", "ENOMEM", next="cat /sys/class/drm/renderD*/device/mem_info_vram_used"),
)  # fmt: skip

JOBS = (
    Cause("reset-under-way", "the GPU was reset while this ran; another program's job may be guilty",
          "F 1.6, 8", when=lambda f: f.get("reset") and not f.get("vram_lost"), next=LOG),
    Cause("vram-lost", "a reset lost VRAM's contents: everything in it must be uploaded anew, by a new "
          "context", "F 8 (VRAMLOST)", when=lambda f: f.get("vram_lost"), weight=3, next=LOG),
    Cause("job-hung", "the job overstayed the kernel's limit and was ended: this engine does not "
          "execute what it was given", "F 8 (-ETIME)", call="AMDGPU_WAIT_CS|AMDGPU_CS", errno="ETIME",
          next=LOG),
    Cause("context-cancelled", "an earlier job of this context, or a reset, took it down", "F 8",
          call="AMDGPU_WAIT_CS|AMDGPU_CS", errno="ECANCELED", next=LOG),
    Cause("soft-recovered", "the kernel killed this job's waves (soft recovery)", "F 8 (-ENODATA)",
          call="AMDGPU_WAIT_CS|AMDGPU_CS", errno="ENODATA", next=LOG),
    Cause("page-fault", "the GPU met an address without a page or a right: see GPUVM_FAULT in the dump",
          "F 1.10, 8", when=lambda f: f.get("gpuvm_fault") and f.get("raised") == "IoctlError",
          weight=1, next="dmesg | grep -i -A8 'page fault'"),
    Cause("unplugged", "the card is gone: removed, fallen off the bus, or its driver unbound",
          "F 8 (-ENODEV)", errno="ENODEV", weight=4, next="lspci -nn | grep 1002:; " + LOG),
    Cause("accel-busy", "the kernel gave up on acceleration after a reset that failed", "F 8 (-EBUSY)",
          errno="EBUSY", next=LOG),
    Cause("ras", "uncorrectable memory errors: RAS stopped all jobs", "F 8 (-EHWPOISON)",
          errno="EHWPOISON", weight=2, next=LOG),
    Cause("cs-refused", "the submission is malformed for this kernel: IB alignment, ring or chunk",
          "F 1.8", call="AMDGPU_CS", errno="EINVAL",
          next="dmesg -w, then: echo 0x1 > /sys/module/drm/parameters/debug"),
    Cause("cs-no-memory", "the kernel has no room for the job's buffers; transient, RADV retries",
          "F 1.8 (-ENOMEM)", call="AMDGPU_CS", errno="ENOMEM",
          next="cat /sys/class/drm/renderD*/device/mem_info_vram_used"),
    Cause("no-interrupts", "jobs run and their end is not told: interrupts do not arrive (MSI, "
          "IOMMU), or the fence is not written", "F 6.1, 9 rung 6", ("nop-*", "fences"),
          "AMDGPU_WAIT_CS", when=lambda f: f.get("late"), next="grep amdgpu /proc/interrupts"),
    Cause("ring-stuck", "the ring does not fetch: its microcode hangs or the engine is powered off",
          "F 8, 10", ("nop-*",), when=lambda f: f.get("late") or f.get("hung"), weight=-1, next=LOG),
    Cause("never-done", "the job is not ended: the packet or wave under test hangs this engine",
          "F 8", ("*",), when=lambda f: f.get("late"), weight=-2, next=LOG),
    Cause("fence-not-written", "the kernel's fence is signalled, the word of the FENCE chunk is not "
          "written: CPU and GPU disagree about that memory", "F 1.8 (FENCE), 6.1", ("fences",),
          when=lambda f: f.get("no_fence"), next=AGAIN + "fences,release-mem"),
    Cause("early-fence", "a fence is signalled before the job's work is done", "F 3.5, 3.6",
          when=lambda f: f.get("early"), next=AGAIN + "fences,queue-order"),
    Cause("call-hangs", "the kernel itself does not come back from a call: a reset under way that "
          "deadlocks, or a dead bus", "F 8", when=lambda f: f.get("hung"), weight=1,
          next="cat /proc/$(pgrep -f bringup)/stack; " + LOG),
    Cause("ioctl-interrupted", "signals arrive faster than the call can be made anew", "F 1.1",
          errno="EINTR|EAGAIN", next="strace -f -e trace=ioctl"),
    Cause("out-of-order", "dependencies between queues are not kept", "F 1.8", ("queue-order",),
          when=lambda f: f.get("out_of_order"), next=LOG),
    Cause("no-wait", "WAIT_REG_MEM does not wait: the microcode reads something else", "F 3.3",
          ("wait-reg-mem",), when=lambda f: f.get("no_wait"), next=INFO),
    Cause("timeline-broken", "the kernel's timeline syncobjs do not count", "F 1.3", ("timeline",),
          when=lambda f: f.get("bad_timeline"), next="uname -r"),
)  # fmt: skip

WORK = (
    Cause("not-visible", "nothing arrived: written elsewhere, or left in a cache that the CPU does not "
          "see", "F 6", when=lambda f: f.get("unwritten") and f.get("mismatch"),
          next=AGAIN + "write-data,release-mem,sdma-copy"),
    Cause("sdma-corrupts", "the copy engine moves data wrongly: its microcode, or the memory behind it",
          "F 7", ("sdma-*", "mem-hidden"), when=lambda f: f.get("mismatch"),
          next="python tools/bringup.py mem"),
    Cause("cp-corrupts", "the command processor writes other data than its packet has", "F 3.3",
          ("write-data*", "copy-data", "release-mem", "nested-ib"), when=lambda f: f.get("mismatch"),
          next=AGAIN + "mem-gtt,write-data"),
    Cause("wrong-code", "waves run other code, or with other registers: instruction cache, RSRC1/2, "
          "user SGPRs", "F 4, 5.2", ("store*", "ids-3d", "wave64", "atomics", "dispatch-order"),
          when=lambda f: f.get("mismatch"), next="python tools/pm4.py lint dump.txt"),
    Cause("lds-size", "LDS_SIZE of RSRC2 is wrong, or barriers do not hold", "F 5.3", ("lds-barrier",),
          when=lambda f: f.get("mismatch"), next="python tools/pm4.py decode dump.txt"),
    Cause("scratch-set-up", "TMPRING_SIZE, the scratch base or its descriptor is wrong", "F 5.5",
          ("scratch",), when=lambda f: f.get("mismatch"), next="python tools/pm4.py decode dump.txt"),
    Cause("bad-cu", "one compute unit computes wrongly: overheated, undervolted or broken", "D stress",
          ("stress", "api-*"), when=lambda f: f.get("mismatch"),
          next="python tools/bringup.py ladder --only stress"),
    Cause("prime-refused", "export or import is refused: a BO that belongs to one VM, or no dma-buf",
          "F 1.13", ("prime-self",), "PRIME_*", "*", next="uname -r"),
    Cause("no-recovery", "the GPU did not come back: recovery is off (amdgpu.gpu_recovery=0), or the "
          "reset failed", "F 8", ("hang-*", "after-hangs"),
          next="cat /sys/module/amdgpu/parameters/gpu_recovery; " + LOG),
    Cause("backend", "every rung below is well, so the fault is in this package: report it with "
          "--bundle", "D", ("api-*",), weight=-3, next="python tools/bringup.py ladder --bundle b.tar.gz"),
)  # fmt: skip

ANY = (
    Cause("no-space-for-fd", "too many open files", "errno(3)", errno="EMFILE|ENFILE",
          next="ulimit -n"),
    Cause("no-permission", "the kernel refuses this call to this user", "F 1.1, 1.6",
          errno="EACCES|EPERM", weight=-1, next="id; ls -l /dev/dri"),
    Cause("not-known-ioctl", "this kernel or driver has no such ioctl", "F 1.1", errno="ENOTTY|ENOSYS",
          next="uname -r"),
    Cause("no-memory", "the kernel has no memory for this", "F 1.8", errno="ENOMEM", weight=-1,
          next="free -m; " + LOG),
    Cause("kernel-log", "the kernel's log has the reason", "F 8", weight=-9, next=LOG),
)  # fmt: skip

CAUSES = (*NODE, *INFO_RUNGS, *MEMORY, *JOBS, *WORK, *ANY)
