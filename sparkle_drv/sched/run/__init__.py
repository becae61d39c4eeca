"""Runs work on the devices of a Context: the executor, its arrays, and the calls of a Context.

The package probes devices, moves arrays, runs what decide chose, and reports times to model. Task
graphs are in sched/graph. graph and `sparkle_drv.context` call this package.

    calls.py              entry of each call: looks up its plan, and calls ops if there is one
    local.py              LocalExecutor: runs decisions, times them, reports to model
    call_plan.py          from a call to its plan: kept, or decided again when a device is busy
    unplanned.py          calls without a plan: bound to a device, empty, or refused by ops
    sharding.py           one call on several devices: decides which device does what
    shared_plan.py        KeptShards: that decision, and the outcome of its last run
    shards.py             does the pieces of such a call: threads of each device
    kernel_calls.py       a user's kernel on one device or several
    failures.py           failures of a device after which another one can do the work
    inspector.py          draws by chance which results are checked
    arrays.py             ContextArray: which copies there are, and which are valid
    constants.py          ContextConstant: weights, copied to a device at first use
    foreign.py            arrays of other libraries among the arguments
    probe.py              measures the time of a class of work
    operands.py           operands and results of a call that several devices share
    health_monitor.py     heartbeats: feeds the health of devices
    ways.py               copies an array to a device, by peer or over the host
    timed_steps.py        a call as timed steps: copy in, convert layout, compute, copy out
    stopwatch.py          Stopwatch: times steps; in a trace, a span for each
    call_spans.py         whole calls and moves of arrays as spans of a trace
    trace_files.py        starts traces and journals, writes their files
"""
