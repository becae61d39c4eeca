"""What the scheduler knows of each operation. No other room of sched names an operation.

    table.py              the operations by name: all others go through it
    operation.py          Operation: what the scheduler asks; Request: one call of an operation
    gemm.py conv2d.py map.py reduce.py layout.py kernel.py
                          one operation each: its Task, class of work, cuts, launch, check
    product.py            what gemm and conv2d have in common: bias, activation, scaled weights
    recorder.py           the operations as methods of a graph
    expression_speed.py   the class of an expression: its time is predicted from its operations
    compose.py            expressions put into one another, and as text
    traffic.py            bytes that a task reads and writes: shows what fusing saves
    verify.py             Freivalds' check of products, samples of other results
    bounds.py             the largest error that a device may make in an expression
    user_kernels.py       a user's kernel, and the check of its arguments

An operation holds no state. It imports ops, and of sched only model and shard: no executor. A test
(tests/sched/operations) parses sched and finds no operation's name outside this room.
"""
