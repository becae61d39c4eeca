"""Steps for the arrays of a Context, and collectives of a mesh."""

from __future__ import annotations

import numpy as np
from memory_model import Skipped, expect
from model_actor import Actor
from write_steps import close, close_unrelated, drop, in_place, out, read, setitem


def refill(actor: Actor) -> None:
    x = actor.pick(write=True)
    values = actor.values(x.expected.shape, x.dtype)
    actor.say(f"{x.name}.fill({values.reshape(-1)[:7].tolist()})")
    x.array.fill(values)
    x.expected[...] = values


def fill_random(actor: Actor) -> None:
    x, seed = actor.pick(lambda x: x.dtype == np.uint8, write=True), actor.draw.randrange(9)
    actor.say(f"{x.name}.fill_random({seed})")
    x.array.fill_random(seed)
    chance = np.random.default_rng(seed)
    x.expected[...] = chance.integers(0, 255, x.expected.shape, np.uint8, endpoint=True)


def on(actor: Actor) -> None:
    """Asks for the copy on a device, which `write_copy` writes later."""
    x, uri = actor.pick(), actor.draw.choice([device.uri for device in actor.context.devices])
    actor.say(f"{x.name}_copy = {x.name}.on({uri!r})")
    x.copies.append((uri, x.array.on(uri)))


def write_copy(actor: Actor) -> None:
    """The documented way to write a copy: on, write, wrote. Others may come in between."""
    x = actor.pick(lambda x: bool(x.copies), write=True)
    uri, copy = x.copies[-1]
    if copy.closed or uri not in x.array.places:
        x.copies.clear()
        raise Skipped
    values = actor.values(x.expected.shape, x.dtype)
    way = actor.draw.choice(("[...] =", "buffer.write", "queue.write"))
    actor.say(f"{x.name}_copy {way} {values.reshape(-1)[:7].tolist()}; {x.name}.wrote({uri!r})")
    if way == "[...] =":
        copy[...] = values
    elif way == "buffer.write":
        copy.buffer.write(values)
    else:
        copy.device.default_queue.write(copy, values).wait()
    x.array.wrote(uri)
    x.expected[...] = values


def places(actor: Actor) -> None:
    x = actor.pick()
    actor.say(f"{x.name}.places, {x.name}.copies")
    if not x.array.places or not x.array.copies:
        raise AssertionError(f"{x.name}: expected a copy somewhere, got none")


OF_A_CONTEXT = (refill, fill_random, on, on, write_copy, write_copy, places, in_place, setitem)
OF_A_CONTEXT += (setitem, out, read, read, close, close_unrelated, drop)


def collective(actors: list[Actor], mesh: object) -> None:
    """A collective of one float32 array of each device: plain arrays, views or waiting ones."""
    first, draw = actors[0], actors[0].draw
    x = first.pick(lambda x: x.dtype == np.float32 and x.expected.ndim == 2, write=True)
    arrays = [x]
    for actor in actors[1:]:
        actor.draw = draw
        shape = x.expected.shape
        fit = [a for a in actor.arrays if a is not None and a.open and a.expected.shape == shape]
        fit = [a for a in fit if a.dtype == np.float32 and not a.memory.frozen]
        fit = [actor.operand] if actor.operand in fit else fit
        arrays.append(draw.choice(fit) if fit else actor.make(shape, np.dtype("f4")))
    for a in arrays:
        a.finish()
    name = draw.choice(("all_reduce", "broadcast"))
    names = ", ".join(a.name for a in arrays)
    if name == "all_reduce":
        total = expect(lambda *values: sum(values), *(a.expected for a in arrays))
        first.say(f"mesh.all_reduce([{names}])")
        mesh.all_reduce([a.array for a in arrays])
    else:
        total = arrays[-1].expected.copy()
        first.say(f"mesh.broadcast([{names}], root={arrays[-1].name})")
        mesh.broadcast([a.array for a in arrays], root=arrays[-1].array)
    for a in arrays:
        a.expected[...] = total
