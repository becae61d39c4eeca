"""The work: kernels with operands, costs and oracles, and the axes that give their sizes.

Plain data: no device is opened and nothing is timed. Called by measure/, tune/ and commands/.

    job.py               Job: a kernel, its operands, costs and oracle
    workloads.py         every kernel of the manifest: axes, inputs, costs, tolerances
    catalog.py           makes the jobs of a device from the names and axes that a person typed
    cache_reach.py       the length of operands that come from memory, not from a cache
    user_kernel.py       a user's kernel: FILE:ENTRY, --arg, sizes
    sweeps.py            points of -D, --group-size and --where
    user_args.py         --arg
    user_reference.py    --ref FILE.py:function
    images.py            loads a user's kernel file; -D macros of GLSL
    compilers.py         compiles sources to images; device_headers.py has what clang lacks
    arith.py, axes.py    arithmetic over names of axes; lists and ranges of sizes
    fills.py             random inputs that a wrong kernel cannot pass
    plans.py             the tile plan that ops would use, and the plan of ops' tile model
    roofs.py             the kinds of roof, and the kernels that measure each
"""
