"""Device, Buffer, Array, Kernel, Commands, Queue, Fence, Pipeline: one concrete class per noun.

core checks arguments and owns lifetimes and fences, once for every backend. A backend below it is a
small object over opaque handles.

    device.py               Device: opens kernels, buffers and queues, counts them, closes them
    buffer.py, array.py     bytes on a device; dtype, shape and strides over them (numpy, DLPack)
    array_shape.py          len, ndim and size, for each class with a shape
    storage.py              one allocation, which buffers, views and arrays share
    retire.py               frees closed memory when no queue can use it any more
    kernel.py               Kernel: its signature, and the dispatch record of a launch
    queue.py                Queue: launch, prepare, submit, copies, waits
    commands.py             Commands: a list that is recorded once, patched, and submitted often
    fence.py                Fence: a point on a queue's timeline; wait, await, timeouts
    cross_queue_waits.py    a failed submission fails those that wait for it on other queues
    pipeline.py             Pipeline: a ring of slots, as for triple buffering
    closing.py              Closing: the base class of objects that a `with` block closes
    timestamp.py            a device's clock, written by a command list
    whole_number.py         checks whole numbers that a caller gives: one within bounds, or several
    seconds_argument.py     converts a caller's seconds (__index__, __float__) to a plain number
    launch_errors.py        why a launch was refused, argument by argument
    describe.py             a submission in words, for FenceTimeout and Queue.describe
    interop.py              exports and imports device memory: DLPack, streams
    dlpack_capsule.py       the structs of dlpack.h; makes and consumes capsules of device memory
    host_pointer.py         pointer arguments of a launch, also a numpy array for one launch
    numpy_layout.py         decides once per process whether C may read numpy's array struct
    registry.py             URI schemes, entry points of plug-ins, discover
    settings.py             environment variables SPARKLE_*, and the options of open

The folder abi/ has the bytes that Python and C agree on. The folder deferred/ has arrays that are
not computed yet.
"""
