"""Context, which `init` returns: opens devices and passes each call to the scheduler.

Most of this file is docstrings and overloads: it is the reference of all calls in one place.
"""

from __future__ import annotations

import contextlib
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy.typing as npt

from sparkle_drv.core import registry, settings
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import timeout_ns
from sparkle_drv.core.registry import devices as usable
from sparkle_drv.core.registry import open_device
from sparkle_drv.core.retire import BRIEFLY_S
from sparkle_drv.errors import DeviceNotFound, SparkleError, leave
from sparkle_drv.mesh.mesh import Mesh
from sparkle_drv.ops.arguments.annotations import (
    Axis,
    ConvOptions,
    Exporter,
    F,
    GemmOptions,
    Host,
    Number,
    ReduceOp,
    ReduceOptions,
    S,
    Shards,
    Topology,
)  # fmt: skip
from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.ops.map.operation import graph_of
from sparkle_drv.sched.decide.opt_in import only_named
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.journal import explain
from sparkle_drv.sched.model.graph_plan import GraphPlan
from sparkle_drv.sched.model.plan import Plan
from sparkle_drv.sched.model.profile import Profile
from sparkle_drv.sched.operations.table import CONV2D, GEMM, LAYOUT, MAP, REDUCE
from sparkle_drv.sched.run import arrays, calls, kernel_calls, trace_files
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.inspector import Inspector
from sparkle_drv.sched.run.local import LocalExecutor, default_clock
from sparkle_drv.sched.run.shared_plan import KeptShards
from sparkle_drv.sched.shard.terms import COMBINES, TOPOLOGIES, Terms, terms, word
from sparkle_drv.telemetry.trace import Trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

Given: TypeAlias = ContextConstant | Host | Exporter
_AUTO: Any = "auto"
_USUAL = None, None, _AUTO, None, True, "none"
"""What a call says of its placing by default: the arguments _PLACING, and how it combines parts."""
_PLACING = "devices", "topology", "shards", "max_vram_gb", "prefer_p2p"
_PLANNED = {operation.name: operation for operation in (GEMM, CONV2D, MAP, REDUCE)}
_BY_POSITION = "; if an expression has a name 'devices', give its value by position"


class Context:
    """A set of open devices, made by `init`. Each call runs on the device that needs least time.

    `devices` is the tuple of devices, `device` is the first of them. Operations take the operands
    of `sparkle_drv.ops`, and also ContextArrays and arrays of other libraries (DLPack). Operations
    on numpy arrays return numpy arrays. Operations on a ContextArray are asynchronous and return a
    ContextArray. `devices=` of an operation lists the URIs to choose among. Without `devices=` all
    devices are candidates, except those that must be named (see `init`).

    Operations raise the errors of `sparkle_drv.ops`. They raise ValueError if no device can run the
    call, or if `devices` is wrong. If all devices fail, they raise the error of the last device.
    `last_plan` and `explain_last_plan` describe the last call. After `close`, and in a forked
    child, calls that need a device raise DeviceLost.

    >>> a = np.ones((4, 8), np.float32)
    >>> with sp.init(["cpu"]) as ctx:
    ...     x = ctx.array((8, 2), np.float32, device="cpu")
    ...     ctx.gemm(a, x).shape
    ...     ctx.map("2 * x", x=a)[0, 0]
    (4, 2)
    np.float32(2.0)
    """

    def __init__(
        self,
        devices: Sequence[Device],
        profile: bool = True,
        validate: float = 0.0,
        aside: Mapping[str, str] | None = None,
        topology: str = "mesh",
    ) -> None:
        self.devices = tuple(devices)
        self.device = self.devices[0]
        for device in self.devices:
            device.reaches(self.devices)
        kept = Profile(self.device.home) if profile else None
        self._executor = LocalExecutor(self.devices, default_clock(), kept, aside)
        several = topology != "single" and len(self._executor.usual) > 1
        self._usual = self._executor.usual_terms = Terms() if several else None
        self._topology = topology
        if validate:
            self._executor.inspector = Inspector(validate)
        self._uris = self._executor.usual
        self._traces: list[Trace] = []
        self._begun: contextlib.AbstractContextManager[Trace] | None = None

    def __repr__(self) -> str:
        return f"<Context of {', '.join(d.uri for d in self.devices)}>"

    def __enter__(self) -> Context:
        self._executor.check_open()
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        leave(self.close, error, BRIEFLY_S)

    def _named(self, what: str, uri: Any, besides: str = "") -> Device:
        if not isinstance(uri, str):
            raise TypeError(f"{what}: expected a URI as text, got {uri!r}")
        known = self._executor.devices
        for name in (uri,) if uri in known else registry.spellings(uri):
            if name in known:
                return known[name]
        raise ValueError(f"{what}: expected one of {', '.join(known)}{besides}, got {uri!r}")

    def _among(self, devices: str | Sequence[str] | None, besides: str = "") -> tuple[str, ...]:
        self._executor.check_open()
        if devices is None:
            return self._uris
        if not isinstance(devices, (list, tuple)) or not devices:
            raise TypeError(f"devices: expected a list of URIs, got {shown(devices)}{besides}")
        found = tuple(self._named("devices", uri).uri for uri in devices)
        if len(set(found)) < len(found):
            raise ValueError(f"devices: expected each device once, got {', '.join(found)}")
        return found

    def array(
        self, shape: Any, dtype: Any, device: str = "auto", layout: str | None = None
    ) -> ContextArray:
        """Returns a new ContextArray of `shape` and `dtype`, filled with zeros.

        `layout` is a layout of images: "NCHW", "NHWC" or a blocked one such as "NCHW8c". device
        "auto" is the first device with enough room. Raises ValueError (no such device, a negative
        dimension, a shape that does not fit the layout), TypeError (no shape or dtype) and
        OutOfDeviceMemory.
        """
        self._executor.check_open()
        if isinstance(device, str) and device == "auto":
            return arrays.empty_anywhere(self._executor, shape, dtype, layout)
        named = self._named("device", device, " or 'auto'")
        return arrays.empty(self._executor, named, shape, dtype, layout)

    def constant(self, w: Any) -> ContextConstant:
        """Returns a private copy of `w`, made now, for weights that never change.

        `w` is a numpy array of any strides, an Array, a ContextArray or a constant. Each device
        copies and packs the constant once, when a call or a graph first reads it there. A plain
        array would be read again in each call. Raises TypeError if `w` is not an array.
        """
        self._executor.check_open()
        return ContextConstant(self._executor, w)

    def _placement(
        self, devices: Sequence[str] | None, topology: str | None, shards: Any,
        max_vram_gb: float | None, prefer_p2p: Any, reduce: str = "none", besides: str = "",
    ) -> tuple[tuple[str, ...], Terms | None]:  # fmt: skip
        """Returns the candidates of a call, and how they share it: None if one runs it all."""
        uris = self._among(devices, besides)
        settings.switch("prefer_p2p", prefer_p2p)
        word("reduce", reduce, COMBINES)
        said = {"shards": shards != "auto", "max_vram_gb": max_vram_gb is not None,
                "reduce": reduce != "none"}  # fmt: skip
        if word("topology", topology or self._topology, TOPOLOGIES) == "mesh":
            if not any(said.values()) and topology is None and prefer_p2p and len(uris) == 1:
                return uris, None
            by_name = lambda uri: self._named("shards", uri).uri  # noqa: E731
            return uris, terms(shards, max_vram_gb, prefer_p2p, reduce, by_name)
        for name in (name for name, is_said in said.items() if is_said):
            raise ValueError(f"{name}: expected topology='mesh' for this argument, got 'single'")
        return uris, None

    @overload
    def gemm(
        self, a: npt.NDArray[S], b: npt.NDArray[S] | ContextConstant,
        out: npt.NDArray[S] | None = None, **options: Unpack[GemmOptions],
    ) -> npt.NDArray[S]: ...  # fmt: skip
    @overload
    def gemm(
        self, a: ContextArray, b: ContextArray | Given, out: ContextArray | None = None,
        **options: Unpack[GemmOptions],
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def gemm(
        self, a: Given, b: ContextArray, out: ContextArray | None = None,
        **options: Unpack[GemmOptions],
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def gemm(
        self, a: Array, b: Array | Given, out: Array | None = None,
        **options: Unpack[GemmOptions],
    ) -> Array: ...  # fmt: skip
    @overload
    def gemm(
        self, a: Given, b: Array, out: Array | None = None,
        **options: Unpack[GemmOptions],
    ) -> Array: ...  # fmt: skip
    @overload
    def gemm(
        self, a: Given, b: Given, out: Any = None,
        **options: Unpack[GemmOptions],
    ) -> Host | Array: ...  # fmt: skip
    def gemm(
        self, a: Any, b: Any, out: Any = None, *, bias: Any = None, activation: str | None = None,
        devices: Sequence[str] | None = None, topology: str | None = None, shards: Any = "auto",
        reduce: str = "none", max_vram_gb: float | None = None, prefer_p2p: bool = True,
        **options: Any,
    ) -> Any:  # fmt: skip
        """Runs `sparkle_drv.ops.gemm` on the device or devices that need least time.

        `topology` is "mesh" (several devices, if that is faster), "single" (one device) or None
        (what `init` was given). `devices` are the candidates. `shards` "auto" leaves out devices
        that do not help, "each" gives every device a part, {URI: share} gives parts in proportion.
        `reduce` "sum" cuts K and adds up the products; otherwise rows or columns are cut.

        `max_vram_gb` limits the memory on a device that does not share the host's memory, in 10^9
        bytes. With `prefer_p2p`, an operand that all devices read whole may be copied from a device
        that has it. These options are the same for conv2d (cut by images or output channels), and
        for map and reduce (cut by range).

        Raises TypeError for an argument of a wrong type. Raises ValueError for an unknown word, for
        a limit or shares without "mesh", and if a part does not fit into the memory.
        """
        if bias is not None:
            options["bias"] = bias
        if activation is not None:
            options["activation"] = activation
        uris, how = self._uris, self._usual
        usual = devices is None and topology is None and max_vram_gb is None and shards is _AUTO
        if not (usual and prefer_p2p is True and reduce == "none"):
            if reduce == "sum" and options.keys() & {"bias", "activation"}:
                raise ValueError(
                    "reduce: expected 'none' beside a bias or an activation, got 'sum'"
                )
            placing = devices, topology, shards, max_vram_gb, prefer_p2p
            uris, how = self._placement(*placing, reduce)
        return calls.call(self._executor, uris, GEMM, (a, b), options, out, how)

    @overload
    def conv2d(
        self, x: npt.NDArray[S], w: npt.NDArray[S] | ContextConstant, bias: Any = None,
        out: npt.NDArray[S] | None = None, **options: Unpack[ConvOptions],
    ) -> npt.NDArray[S]: ...  # fmt: skip
    @overload
    def conv2d(
        self, x: ContextArray, w: ContextArray | Given, bias: Any = None,
        out: ContextArray | None = None, **options: Unpack[ConvOptions],
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def conv2d(
        self, x: Given, w: ContextArray, bias: Any = None,
        out: ContextArray | None = None, **options: Unpack[ConvOptions],
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def conv2d(
        self, x: Array, w: Array | Given, bias: Any = None,
        out: Array | None = None, **options: Unpack[ConvOptions],
    ) -> Array: ...  # fmt: skip
    @overload
    def conv2d(
        self, x: Given, w: Array, bias: Any = None,
        out: Array | None = None, **options: Unpack[ConvOptions],
    ) -> Array: ...  # fmt: skip
    @overload
    def conv2d(
        self, x: Given, w: Given, bias: Any = None,
        out: Any = None, **options: Unpack[ConvOptions],
    ) -> Host | Array: ...  # fmt: skip
    def conv2d(
        self, x: Any, w: Any, bias: Any = None, out: Any = None, *, activation: str | None = None,
        devices: Sequence[str] | None = None, topology: str | None = None, shards: Any = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True, **options: Any,
    ) -> Any:  # fmt: skip
        """Runs `sparkle_drv.ops.conv2d` on the device or devices that need least time.

        Without `layout`, the layout of `x` is used if conv2d supports it. An `x` in another layout,
        also a blocked one, is converted first; the plan includes that time. `topology`, `shards`,
        `max_vram_gb` and `prefer_p2p` are those of `gemm`. Raises the errors of `gemm`.
        """
        if activation is not None:
            options["activation"] = activation
        uris, how = self._uris, self._usual
        usual = devices is None and topology is None and max_vram_gb is None and shards is _AUTO
        if not (usual and prefer_p2p is True):
            uris, how = self._placement(devices, topology, shards, max_vram_gb, prefer_p2p)
        return calls.call(self._executor, uris, CONV2D, (x, w, bias), options, out, how)

    @overload
    def map(  # type: ignore[overload-overlap]  # a call without an array
        self, expression: str | Callable[..., Any], /,
        *values: Host | Number,
        out: Host | None = None, devices: Sequence[str] | None = None,
        topology: Topology | None = None, shards: Shards = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True,
        **named: Host | Number,
    ) -> Host: ...  # fmt: skip
    @overload
    def map(  # type: ignore[overload-overlap]  # a call without an array
        self, expression: str | Callable[..., Any], /,
        *values: ContextArray | ContextConstant | Host | Number,
        out: ContextArray | None = None, devices: Sequence[str] | None = None,
        topology: Topology | None = None, shards: Shards = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True,
        **named: ContextArray | ContextConstant | Host | Number,
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def map(
        self, expression: str | Callable[..., Any], /,
        *values: Array | ContextConstant | Host | Number,
        out: Array | None = None, devices: Sequence[str] | None = None,
        topology: Topology | None = None, shards: Shards = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True,
        **named: Array | ContextConstant | Host | Number,
    ) -> Array: ...  # fmt: skip
    @overload
    def map(
        self, expression: str | Callable[..., Any], /,
        *values: Given | Number,
        out: Any = None, devices: Sequence[str] | None = None,
        topology: Topology | None = None, shards: Shards = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True,
        **named: Given | Number,
    ) -> Host | Array: ...  # fmt: skip
    def map(
        self, expression: Any, /, *values: Any, out: Any = None,
        devices: Sequence[str] | None = None, topology: str | None = None, shards: Any = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True, **named: Any,
    ) -> Any:  # fmt: skip
        """Runs `sparkle_drv.ops.map` on the device or devices that need least time.

        If an expression has a name that is an argument of this method, such as `out`, give its
        value by position. `topology`, `shards`, `max_vram_gb` and `prefer_p2p` are those of `gemm`.
        Raises the errors of `gemm`.
        """
        if not isinstance(expression, str):
            expression = graph_of(expression)  # a function is traced anew in each call
        uris, how = self._uris, self._usual
        usual = devices is None and topology is None and max_vram_gb is None and shards is _AUTO
        if not (usual and prefer_p2p is True):
            what = devices, topology, shards, max_vram_gb, prefer_p2p
            uris, how = self._placement(*what, besides=_BY_POSITION)
        args = expression, *values
        return calls.call(self._executor, uris, MAP, args, named, out, how)

    @overload
    def reduce(
        self, a: npt.NDArray[F], op: ReduceOp = "sum", axis: Axis = None,
        **options: Unpack[ReduceOptions],
    ) -> npt.NDArray[F]: ...  # fmt: skip
    @overload
    def reduce(
        self, a: ContextArray, op: ReduceOp = "sum", axis: Axis = None,
        **options: Unpack[ReduceOptions],
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def reduce(
        self, a: Array, op: ReduceOp = "sum", axis: Axis = None,
        **options: Unpack[ReduceOptions],
    ) -> Array: ...  # fmt: skip
    @overload
    def reduce(
        self, a: Host, op: ReduceOp = "sum", axis: Axis = None,
        **options: Unpack[ReduceOptions],
    ) -> Host: ...  # fmt: skip
    @overload
    def reduce(
        self, a: Exporter | ContextConstant | str | Callable[..., Any],
        op: ReduceOp = "sum", axis: Axis = None, *,
        keepdims: bool = False, devices: Sequence[str] | None = None,
        topology: Topology | None = None, shards: Shards = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True, **names: Any,
    ) -> Host | Array | ContextArray: ...  # fmt: skip
    def reduce(
        self, a: Any, op: str = "sum", axis: Axis = None, *, keepdims: bool = False,
        devices: Sequence[str] | None = None, topology: str | None = None, shards: Any = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True, **names: Any,
    ) -> Any:  # fmt: skip
        """Runs `sparkle_drv.ops.reduce` on the device or devices that need least time.

        A reduction of an expression runs on the first device. `topology`, `shards`, `max_vram_gb`
        and `prefer_p2p` are those of `gemm`. Raises the errors of `gemm`.
        """
        names["keepdims"] = keepdims
        uris, how = self._uris, self._usual
        usual = devices is None and topology is None and max_vram_gb is None and shards is _AUTO
        if not (usual and prefer_p2p is True):
            what = devices, topology, shards, max_vram_gb, prefer_p2p
            uris, how = self._placement(*what, besides=_BY_POSITION)
        return calls.call(self._executor, uris, REDUCE, (a, op, axis), names, None, how)

    def dispatch(
        self, kernel: str | Mapping[str, Mapping[str, Any]], args: Any, *, groups: Any = None,
        group_size: Any = None, cut: Mapping[str | int, int | str] | None = None, out: Any = None,
        devices: Sequence[str] | None = None, topology: str | None = None, shards: Any = "auto",
        max_vram_gb: float | None = None, prefer_p2p: bool = True,
    ) -> Any:  # fmt: skip
        """Launches a kernel of the manifest by name, or a user kernel with an image per backend.

        A user kernel is given as a dict from backend to the arguments of `Device.kernel`:
        `{"cpu": {"image": path, "entry": "f", "args": "f32* y, u32 n"}}`. Devices of other backends
        do not take part. `args` are numpy arrays, ContextArrays and numbers, in order or by name.

        With `cut`, devices share the call. {argument: axis} cuts an array along an axis; all cut
        arrays must have the same extent there. {argument: "count"} sets an integer argument to the
        number of elements of a piece, {argument: "begin"} to the index of the first element. An
        argument is given by its name or its index. Arrays that are not cut are read whole. Without
        `cut` the first device that has the kernel runs the call.

        `groups` are the workgroups of the whole call; a piece gets its part along x, rounded up.
        `groups` may also be a function from the elements of a piece to the workgroups of that
        piece. `out` names the written arrays, if the manifest does not. The kernel gets copies. The
        written arrays are updated when all pieces have ended, and returned: one array, or a tuple.
        The other options are those of `gemm`.

        The first call of a kernel measures it on parts of these arrays. Raises ImageError for an
        image that no device can load, FileNotFoundError for a missing file, TypeError for an
        argument of a wrong type, and the errors of devices. Raises ValueError for a missing
        argument or axis, different extents, a written array that is not cut, or if no device has
        the kernel.
        """
        mesh = topology or self._topology
        uris, how = self._placement(devices, mesh, shards, max_vram_gb, prefer_p2p)
        what = kernel, args, groups, group_size, cut, out
        return kernel_calls.run_kernel(self._executor, uris, how, what)

    def plan(self, op: str, /, *given: Any, **options: Any) -> Plan | KeptShards:
        """Returns the plan of `ctx.OP(*given, **options)` without making the call.

        `op` is "gemm", "conv2d", "map" or "reduce". Operands only need a shape and dtype:
        `np.broadcast_to(np.float32(0), (4096, 4096))` takes four bytes.

        The plan has `device`, `predicted_s` in seconds and `explain()` (sched/model/plan.py, for
        several devices sched/run/shared_plan.py). Unknown rates are measured, as the call would do.
        `last_plan` does not change. Raises the errors of the call for wrong arguments. Raises
        ValueError for another `op`, for empty operands, and for operands bound to a device.
        """
        operation = _PLANNED[word("op", op, tuple(_PLANNED))]
        names = (*_PLACING, "reduce") if operation is GEMM else _PLACING
        said: dict[str, Any] = dict(zip((*_PLACING, "reduce"), _USUAL, strict=True))
        said |= {name: options.pop(name) for name in names if name in options}
        uris, how = self._placement(*said.values())
        args, named, out = operation.arguments(*given, **options)
        return calls.plan(self._executor, uris, operation, args, named, out, how)

    @overload
    def layout(
        self, a: npt.NDArray[S], layout: str, *,
        devices: Sequence[str] | None = None, **options: Any,
    ) -> npt.NDArray[S]: ...  # fmt: skip
    @overload
    def layout(
        self, a: ContextArray, layout: str, *,
        devices: Sequence[str] | None = None, **options: Any,
    ) -> ContextArray: ...  # fmt: skip
    @overload
    def layout(
        self, a: Array, layout: str, *,
        devices: Sequence[str] | None = None, **options: Any,
    ) -> Array: ...  # fmt: skip
    @overload
    def layout(
        self, a: Exporter | ContextConstant, layout: str, *,
        devices: Sequence[str] | None = None, **options: Any,
    ) -> Host | Array | ContextArray: ...  # fmt: skip
    def layout(
        self, a: Any, layout: str, *, devices: Sequence[str] | None = None, **options: Any
    ) -> Any:
        """Runs `sparkle_drv.ops.layout` on the device that needs least time.

        `options` may include `out`.
        """
        uris, out = (
            self._uris if devices is None else self._among(devices),
            options.pop("out", None),
        )
        return calls.call(self._executor, uris, LAYOUT, (a, layout), options, out)

    def graph(
        self, *, fuse: bool = True, devices: Sequence[str] | None = None,
        micro_batches: int | str = 1,
    ) -> TaskGraph:  # fmt: skip
        """Returns a graph, which records operations and runs them together (sched/graph/record.py).

        Use: `with ctx.graph() as g: y = g.conv2d(x, w)`, then `g.run()`. With fuse=False operations
        are not fused: each is a task of its own.

        `micro_batches` cuts axis 0 into this many parts, so that devices with different layers work
        at the same time. "auto" chooses the number with the least predicted time. `run` raises
        ValueError if the graph cannot be cut (sched/graph/place/micro_batches.py). Raises TypeError
        or ValueError for a wrong argument.
        """
        settings.switch("fuse", fuse)
        return TaskGraph(self._executor, self._among(devices), fuse, micro_batches)

    def create_mesh(self, devices: str | Sequence[str] = "all") -> Mesh:
        """Returns a Mesh (mesh/mesh.py) of devices of this Context.

        `devices` is a list of URIs, or "all" for all except those that must be named. The
        collectives take one Array on each device:
        `with ctx.create_mesh() as mesh: mesh.all_reduce(arrays)`. Raises TypeError (neither a list
        nor "all") and ValueError (no such device, a device twice).
        """
        uris = self._among(None if isinstance(devices, str) and devices == "all" else devices)
        return Mesh(
            [self._executor.devices[uri] for uri in uris],
            self._executor.clock,
            self._executor.profile,
            self._executor.ways,
            self._executor.health.report,
        )

    @property
    def last_plan(self) -> Plan | GraphPlan | KeptShards | None:
        """The plan of the last call or graph run, with the times of its last measured run.

        The plan of a call is a Plan (sched/model/plan.py). The plan of a graph is a GraphPlan
        (sched/model/graph_plan.py). The plan of a call that several devices shared is a KeptShards
        (sched/run/shared_plan.py). `last_plan` is None until a call has been planned.
        """
        last = self._executor.last
        return None if last is None else last.so_far

    def explain_last_plan(self) -> str:
        """Returns the last plan in words.

        The text has the candidates, their predicted times, and why the others were not chosen. It
        also has the last measured time of the chosen candidate, split into the same parts as the
        predicted time.
        """
        last = self.last_plan
        return "nothing was planned yet" if last is None else last.explain()

    @contextlib.contextmanager
    def trace(self, name: str) -> Iterator[Trace]:
        """Records every decision, transfer and operation in the `with` block.

        Each queue of each device has a track. To know when a call ends, the trace waits for the
        call. So a trace shows what takes time, but not how calls overlap. `save_trace` writes the
        trace to a file. Raises ValueError inside another trace.
        """
        with trace_files.recorded(self._executor, name) as trace:
            self._traces.append(trace)
            yield trace

    def trace_begin(self, name: str) -> Trace:
        """Begins a trace that `trace_end` ends, without a `with` block.

        Raises the errors of `trace`.
        """
        recording = self.trace(name)
        begun = recording.__enter__()
        self._begun = recording
        return begun

    def trace_end(self) -> None:
        """Ends the trace that `trace_begin` began.

        Raises ValueError if there is no such trace. Raises DeviceLost if the Context was closed
        meanwhile; `save_trace` still saves the trace.
        """
        recording, self._begun = self._begun, None
        if recording is None:
            raise ValueError("trace_end: expected a trace begun by trace_begin, got none")
        recording.__exit__(None, None, None)
        self._executor.check_open()

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes all traces so far as trace-event JSON, for Perfetto or chrome://tracing.

        The journal (sched/journal/journal.py), with the decisions and their inputs, is written to
        PATH.journal. An existing file is replaced whole; a link is followed. A pipe or device such
        as /dev/stdout gets the trace without a journal. Raises OSError if the file cannot be
        written, TypeError if `path` is no path.
        """
        trace_files.save(self._traces, path)

    def explain_devices(self) -> str:
        """Returns the devices in words: their facts, measured rates and shared resources.

        If a device takes part only when it is named, the text says why.
        """
        return explain.devices(self.devices, self._executor.costs, self._executor.aside)

    def close(self, timeout_s: float = 30) -> None:
        """Closes every device; a second call does nothing.

        If a device raises FenceTimeout (see `Device.close`), the others are closed before this call
        raises it. Raises TypeError or ValueError for a wrong `timeout_s`.
        """
        timeout_ns(timeout_s)
        self._executor.close()
        failure: SparkleError | None = None
        for device in self.devices:
            try:
                device.close(timeout_s)
            except SparkleError as error:
                failure = failure or error
        if failure is not None:
            raise failure


def init(
    devices: str | Sequence[str] = "all",
    *,
    profile: bool = True,
    validate: float = 0.0,
    deterministic: bool = False,
    topology: Topology = "mesh",
) -> Context:
    """Opens devices as one Context: all usable ones ("all"), the best first, or a list of URIs.

    With "all", a software device that computes on the cores of another device (such as Mesa's
    llvmpipe for OpenGL) takes part only if it is named. A list of URIs names it, here or in
    `devices=` of a call or graph. But `device=` of an array does not name a device in this sense:
    it only places that array. `explain_devices` lists the devices that must be named.

    Measured rates are read from SPARKLE_HOME/profile.json and kept there, unless profile=False. An
    unknown rate is measured when the first call needs it. `deterministic` is passed to `open`: the
    bits of a result then do not depend on the number of threads. `deterministic` also makes
    "single" the default `topology`, because the cuts of a shared call depend on measured rates.
    `topology` is the default of calls: "mesh" lets several devices share a call, "single" runs each
    call on one device.

    `validate`, 0 to 1, is the share of results that are checked before the call returns
    (sched/operations/verify.py). A device with a wrong result is trusted less, and the log has a
    warning. Another device runs the call again; if there is none, the call raises KernelFault.

    Raises DeviceNotFound if there is no device. Raises ValueError for an empty list and for a
    device that is named twice, by any spelling. Raises TypeError for text other than "all" and for
    a `profile` that is not a bool. Raises TypeError or ValueError for a wrong `validate` or
    `topology`, and the errors of `open`. After an error no device stays open.

    >>> with sp.init(["cpu"], validate=0.1) as ctx:
    ...     ctx.reduce(np.arange(5, dtype=np.float32))
    array(10., dtype=float32)
    """
    settings.switch("profile", profile)
    word("topology", topology, TOPOLOGIES)
    if isinstance(validate, bool) or not isinstance(validate, numbers.Real):
        raise TypeError(f"validate: expected a share from 0 to 1 of the results, got {validate!r}")
    if not 0 <= validate <= 1:
        raise ValueError(f"validate: expected a share from 0 to 1 of the results, got {validate!r}")
    if devices != "all" and not isinstance(devices, (list, tuple)):
        raise TypeError(f"devices: expected 'all' or a list of URIs, got {devices!r}")
    if not devices:
        raise ValueError("devices: expected 'all' or a list of URIs, got an empty one")
    uris = [info.uri for info in usable()] if devices == "all" else list(devices)
    if not uris:
        raise DeviceNotFound("no usable device; sparkle_drv.discover() says what was tried")
    opened: list[Device] = []
    try:
        for uri in uris:
            device = open_device(uri, deterministic=deterministic)
            opened.append(device)
            if any(device.uri == other.uri for other in opened[:-1]):
                raise ValueError(
                    f"devices: expected each device once, got {uri!r}, which is {device.uri} again"
                )
    except BaseException:
        if opened:
            # Errors of `close` are dropped, since `raise` below reports the first error.
            with contextlib.suppress(SparkleError):
                Context(opened).close()
        raise
    aside = only_named([device.info for device in opened]) if devices == "all" else None
    topology = "single" if deterministic else topology
    return Context(opened, profile, float(validate), aside, topology)
