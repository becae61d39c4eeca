"""Steps that write to memory of a device, in every way of the public API, or free it."""

from __future__ import annotations

import gc
import operator
from typing import Any

import numpy as np
from expression_steps import _both, _key, _name
from memory_model import ModelArray, Skipped, admissible, expect
from model_actor import SHARED, SLOTS, Actor

import sparkle_drv as sp

IN_PLACE = (operator.iadd, operator.isub, operator.imul)
BUSY_STEPS = {"cpu": 500_000, "egl": 50_000, "emu": 500}
"""Steps of the kernel busy_u32 that keep a device busy for about a millisecond."""


def _is_float(x: ModelArray) -> bool:
    """Whether the kernels of `launch` take this array."""
    return x.dtype == np.float32 and x.offset % 256 == 0


def queue_write(actor: Actor) -> None:
    x, queue = actor.pick(write=True), actor.any_queue()
    host = actor.values(x.expected.shape, x.dtype)
    with actor.using(writes=[x], queue=queue):
        actor.say(f"{actor.queue_name(queue)}.write({x.name}, {host.reshape(-1)[:7].tolist()})")
        fence = queue.write(x.array, host)
        x.expected[...] = host
        actor.submitted(fence, [x])


def part_write(actor: Actor) -> None:
    """Writes the first row through a view of the buffer."""
    x, queue = actor.pick(lambda x: x.expected.ndim > 0, write=True), actor.any_queue()
    host = actor.values(x.expected[:1].shape, x.dtype)
    with actor.using(writes=[x], queue=queue):
        actor.say(f"{actor.queue_name(queue)}.write(first row of {x.name})")
        fence = queue.write(x.array.buffer.view(0, host.nbytes), host)
        x.expected[:1] = host
        actor.submitted(fence, [x])


def buffer_write(actor: Actor) -> None:
    x = actor.pick(write=True)
    host = actor.values(x.expected.shape, x.dtype)
    with actor.using(writes=[x], queue=actor.device.default_queue):
        actor.say(f"{x.name}.buffer.write({host.reshape(-1)[:7].tolist()})")
        x.array.buffer.write(host)
        x.expected[...] = host


def fill(actor: Actor) -> None:
    x, queue = actor.pick(_is_float, write=True), actor.any_queue()
    value, kernel = float(actor.draw.randint(-9, 9)), actor.device.kernel("fill_f32")
    groups = -(-x.expected.size // kernel.group_size[0])
    with actor.using(writes=[x], queue=queue):
        actor.say(f"{actor.queue_name(queue)}.launch(fill_f32, {x.name}, {value})")
        fence = queue.launch(kernel, x.array, value, x.expected.size, groups=groups)
        x.expected[...] = value
        actor.submitted(fence, [x])


def _pair(actor: Actor) -> tuple[ModelArray, ModelArray]:
    """Returns a target and a source of one shape, for kernels, in separate memory."""
    y = actor.pick(_is_float, write=True)
    shape = y.expected.shape
    pool = [x for x in (*actor.arrays, *actor.common.shared) if x is not None and x.open]
    pool = [x for x in pool if _is_float(x) and x.expected.shape == shape]
    pool = [x for x in pool if x.memory is not y.memory]
    x = actor.draw.choice(pool) if pool else actor.make(shape, np.dtype("f4"))
    return y, x


def saxpy(actor: Actor) -> None:
    (y, x), queue, kernel = _pair(actor), actor.any_queue(), actor.device.kernel("saxpy_f32")
    groups = -(-x.expected.size // kernel.group_size[0])
    with actor.using(x, writes=[y], queue=queue):
        expected = expect(lambda a, b: b + 2 * a, x.expected, y.expected)
        actor.say(f"{actor.queue_name(queue)}.launch(saxpy_f32, {y.name}, {x.name}, 2)")
        fence = queue.launch(kernel, y.array, x.array, 2.0, x.expected.size, groups=groups)
        y.expected[...] = expected
        actor.submitted(fence, [y], [x])


def command_list(actor: Actor) -> None:
    """A list that fills a temporary array, and copies; it may be submitted again later."""
    (y, x), queue = _pair(actor), actor.queue
    commands = sp.Commands().copy(y.array, x.array)
    pipelined = actor.draw.random() < 0.3

    def submit() -> None:
        with actor.using(x, writes=[y], queue=None if pipelined else queue):
            if pipelined:
                y.finish()
                x.finish()
                actor.say(f"pipeline: copy({y.name}, {x.name})")
                with actor.device.pipeline(2) as pipe:
                    fence = pipe.submit(pipe.acquire(), commands).wait()
            else:
                actor.say(f"q{actor.number}.submit(copy({y.name}, {x.name}))")
                fence = queue.submit(commands)
            y.expected[...] = x.expected
            actor.submitted(fence, [y], [x])

    submit()
    actor.repeated.append((f"list of {y.name}, {x.name}", y, submit))


def pattern(actor: Actor) -> None:
    x, queue = actor.pick(lambda x: x.dtype == np.float32, write=True), actor.any_queue()
    value = np.float32(actor.draw.randint(1, 9))
    commands = sp.Commands().fill(x.array, int(value.view(np.uint32)))
    with actor.using(writes=[x], queue=queue):
        actor.say(f"{actor.queue_name(queue)}.submit(fill({x.name}, {value}))")
        fence = queue.submit(commands)
        x.expected[...] = value
        actor.submitted(fence, [x])


def prepared(actor: Actor) -> None:
    """A prepared launch: y += x, called now and by `repeat`."""
    (y, x), queue, kernel = _pair(actor), actor.queue, actor.device.kernel("saxpy_f32")
    groups = -(-x.expected.size // kernel.group_size[0])
    go = queue.prepare(kernel, y.array, x.array, 1.0, x.expected.size, groups=groups)

    def call() -> None:
        with actor.using(x, writes=[y], queue=queue):
            expected = expect(operator.add, y.expected, x.expected)
            actor.say(f"prepared on q{actor.number}: {y.name} += {x.name}")
            fence = queue.fence(go())
            y.expected[...] = expected
            actor.submitted(fence, [y], [x])

    call()
    actor.repeated.append((f"prepared {y.name}, {x.name}", y, call))


def repeat(actor: Actor) -> None:
    if not actor.repeated:
        raise Skipped
    _, _, call = actor.draw.choice(actor.repeated[-4:])
    call()


def busy(actor: Actor) -> None:
    """Keeps the default queue busy, so that what follows on it runs late."""
    steps = BUSY_STEPS.get(actor.device.uri.partition(":")[0], 1000) * actor.draw.randint(1, 4)
    actor.say(f"default_queue.launch(busy_u32, {steps} steps)")
    with actor.device.buffer(4) as result:
        kernel = actor.device.kernel("busy_u32")
        actor.device.default_queue.launch(kernel, result, steps, groups=2)


def in_place(actor: Actor) -> None:
    """An in-place operator on an array that waits, on one in memory, or on a view."""
    x, function = actor.pick(write=True), actor.draw.choice(IN_PLACE)
    y: Any = actor.draw.randint(0, 3) if actor.draw.random() < 0.6 else actor.pick()
    if x.dtype == bool:
        raise Skipped
    with actor.using(y, x, writes=[x], queue=None):
        array, plain = _both(y)
        expected = expect(lambda a, b: function(a.copy(), b), x.expected, plain)
        if expected.shape != x.expected.shape:
            raise Skipped
        actor.say(f"{x.name} {function.__name__} {_name(y)}")
        x.array = function(x.array, array)
        x.expected[...] = expected


def setitem(actor: Actor) -> None:
    """A number, a numpy array or an Array into any slice."""
    x, draw = actor.pick(write=True), actor.draw
    key = _key(actor, x.expected.shape)
    part = x.expected[key].shape
    y: Any = draw.randint(0, 1) if draw.random() < 0.4 else actor.values(part, x.dtype)
    if draw.random() < 0.4:
        y = actor.pick(lambda y: y.dtype == x.dtype)
    with actor.using(y, x, writes=[x], queue=None):
        array, plain = _both(y)
        try:
            expected = np.array(np.broadcast_to(plain, part)).astype(x.dtype)
        except ValueError:
            raise Skipped from None
        actor.say(f"{x.name}[{key}] = {_name(y) if isinstance(y, ModelArray) else 'numbers'}")
        x.array[key] = array
        x.expected[key] = expected


def out(actor: Actor) -> None:
    """`out=` of a map, a product or a ufunc."""
    way = actor.draw.choice(("map", "add", "gemm"))

    def suits(x: ModelArray) -> bool:
        square = x.expected.ndim == 2 and len(set(x.expected.shape)) == 1
        return _is_float(x) and (way != "gemm" or (square and x.expected.size <= 2**14))

    target, x, y = actor.pick(suits, write=True), actor.pick(suits), actor.pick(suits)
    if len({a.expected.shape for a in (target, x, y)}) > 1:
        raise Skipped
    if way == "gemm" and target.memory in (x.memory, y.memory):
        raise Skipped
    queue = actor.device.default_queue
    ops, first = (sp.ops, (actor.device,)) if actor.context is None else (actor.context, ())
    with actor.using(x, y, writes=[target], queue=None):
        compute = operator.matmul if way == "gemm" else operator.add
        expected = expect(compute, x.expected, y.expected)
        actor.say(f"{way}({x.name}, {y.name}, out={target.name})")
        if way == "add":
            result = np.add(x.array, y.array, out=target.array)
        elif way == "map":
            result = ops.map(*first, "a + b", a=x.array, b=y.array, out=target.array)
        else:
            result = ops.gemm(*first, x.array, y.array, target.array)
        target.expected[...] = expected
        fence = result.fence if actor.context is None else None
        if fence is not None and fence.queue is queue:
            actor.submitted(fence, [target], [x, y])


def host_write(actor: Actor) -> None:
    """Writes by a view that numpy() or DLPack gave, of memory that the device shares."""
    x = actor.pick(lambda x: not x.memory.frozen, write=True)
    if not actor.device.info.unified or actor.context is not None:
        raise Skipped
    host = actor.values(x.expected.shape, x.dtype)
    dlpack = actor.draw.random() < 0.3
    with actor.using(x, writes=[x], queue=None):
        x.finish()
        if dlpack:
            x.memory.host_views.append((np.from_dlpack(x.array), x.expected))
        if not x.memory.host_views:
            x.memory.host_views.append((x.array.numpy(), x.expected))
        elements, model = actor.draw.choice(x.memory.host_views)
        if elements.shape != host.shape or elements.dtype != host.dtype:
            raise Skipped
        actor.say(f"a host view of {x.name}'s memory gets {host.reshape(-1)[:7].tolist()}")
        elements[...] = model[...] = host


def read(actor: Actor) -> None:
    ways = ("numpy", "asarray", "get", "get")
    if actor.context is None:  # numpy() of unified memory ends the waiting of its expressions
        ways += ("buffer.read", "queue.read", "get") * 3
    actor.read(actor.pick(), actor.draw.choice(ways))


def close(actor: Actor) -> None:
    slots = [i for i, x in enumerate(actor.arrays) if x is not None and not x.memory.frozen]
    if not slots:
        raise Skipped
    slot = actor.draw.choice(slots)
    x = actor.arrays[slot]
    assert x is not None
    actor.arrays[slot] = None
    actor.repeated = [entry for entry in actor.repeated if x.name not in entry[0]]
    with actor.using(writes=[]):
        shared = x.memory.shared
    if shared:
        return  # another thread's prepared launch may use it
    actor.say(f"{x.name}.close()")
    x.array.close()
    x.closed = True
    x.memory.closed = x.memory.closed or x.owns
    actor.repeated = [entry for entry in actor.repeated if entry[1].open]


def close_unrelated(actor: Actor) -> None:
    actor.say("an unrelated array is closed")
    if actor.context is None:
        actor.device.array(np.zeros(4, np.float32)).close()
    else:
        actor.context.array((4,), "f4").fill(1).close()


def drop(actor: Actor) -> None:
    slot = actor.draw.randrange(SLOTS)
    x = actor.arrays[slot]
    if x is None:
        raise Skipped
    actor.say(f"del {x.name}")
    actor.arrays[slot] = None
    if actor.draw.random() < 0.05:
        gc.collect()


def publish(actor: Actor) -> None:
    """From now on all threads use this array under the lock, or read it without one."""
    x, common = actor.pick(), actor.common
    if x.memory.frozen or x.memory.shared or not admissible(x.expected):
        raise Skipped
    if any(x.memory is entry.memory for _, entry, _ in actor.repeated):
        raise Skipped
    frozen = actor.draw.random() < 0.5
    actor.say(f"{x.name} is {'read' if frozen else 'shared'} by all threads")
    if frozen:
        x.memory.quiet()
        x.memory.frozen = True
        common.frozen[:] = [*common.frozen[-SHARED:], x]
    else:
        with common.lock:
            x.memory.shared = True
            common.shared[:] = [*common.shared[-SHARED:], x]


WRITING = (queue_write, queue_write, part_write, buffer_write, fill, fill, saxpy, command_list)
WRITING += (pattern, prepared, repeat, repeat, busy, in_place, in_place, setitem, setitem, out)
WRITING += (host_write, read, read, read, close, close, close_unrelated, drop, publish)
