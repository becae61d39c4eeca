"""Runs work on the devices of a Context: the executor, its arrays, and the calls of a Context.

The package probes devices, moves arrays, runs what decide chose, and reports times to model. Task
graphs are in sched/graph. graph and `sparkle_drv.context` call this package.

    local.py              LocalExecutor: runs decisions, times them, reports to model
    fast_path.py          entry of each call: looks up its plan, and calls ops if there is one
    calls.py              the operations of a Context: gemm, conv2d, map, reduce, layout
    call_plan.py          from a call to its plan: kept, or decided again when a device is busy
    estimates.py          plans of calls that are not made
    shard_calls.py        the operations that several devices may share: how each is cut
    sharding.py           one call on several devices: decides which device does what
    shards.py             does the pieces of such a call: threads of each device
    kernel_calls.py       a user's kernel on one device or several
    user_kernels.py       checks that kernel and its arguments before anything is submitted
    argument_checks.py    refuses what ops would refuse, before anything is measured
    arrays.py             ContextArray: which copies there are, and which are valid
    constants.py          ContextConstant: weights, copied to a device at first use
    foreign.py            arrays of other libraries among the arguments
    probe.py              measures the time of a class of work
    operands.py           operands and results of a call that several devices share
    health_monitor.py     heartbeats: feeds the health of devices
    ways.py               copies an array to a device, by peer or over the host
    timed_steps.py        a call as timed steps: copy in, convert layout, compute, copy out
    traced_calls.py       a call as a span for each step, while a trace is recorded
    call_spans.py         whole calls and moves of arrays as spans of a trace
    trace_files.py        starts traces and journals, writes their files
"""
