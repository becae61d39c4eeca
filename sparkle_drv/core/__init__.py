"""Device, Buffer, Array, Kernel, Commands, Queue, Fence, Pipeline: one concrete class per noun.

Checks arguments, owns lifetimes and fences once; backends below are small objects over opaque
handles.

    device.py               Device: opens kernels, buffers and queues, counts them, closes them
    buffer.py, array.py     bytes on a device; dtype, shape and strides over them (numpy, DLPack)
    array_shape.py          len, ndim and size, for each class with a shape
    storage.py              one allocation, which buffers, views and arrays share
    retire.py               frees closed memory once no queue can use it any more
    kernel.py               Kernel: its signature, and the dispatch record of a launch
    queue.py                Queue: launch, prepare, submit, copies, waits
    commands.py             Commands: a list recorded once, submitted often; patch
    fence.py                Fence: a point on a queue's timeline; wait, await, timeouts
    cross_queue_waits.py    a failure of one queue fails what waited for it on another
    pipeline.py             Pipeline: a ring of slots, as for triple buffering
    closing.py              Closing: what the end of a `with` block closes
    timestamp.py            a device's clock, written by a command list
    whole_number.py         whole numbers of the caller's: one within its bounds, or several
    plain_numbers.py        a caller's seconds (__index__, __float__) as one plain number
    launch_errors.py        why a launch was refused, argument by argument
    describe.py             a submission in words, for FenceTimeout and Queue.describe
    interop.py              exports and imports memory that is not the host's: DLPack, streams
    dlpack_capsule.py       the structs of dlpack.h, and capsules of devices' memory, made and taken
    host_pointer.py         what stands in a pointer's place, also a numpy array for one launch
    numpy_layout.py         may C read numpy's array struct? asked once a process
    registry.py             URI schemes, entry points of plug-ins, discover
    settings.py             environment variables SPARKLE_*, and the options of open

abi/ below has the bytes that Python and C agree on; deferred/ has arrays that wait to be computed.
"""
