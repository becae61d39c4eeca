"""sparkle_drv: driver-direct compute on whatever devices a machine has.

This file has only names; each is imported at first use.

    tools/ benchmarks/ examples/ tests/   users of the public API
    sparkle_drv/__init__.py               names only (__main__.py: python -m sparkle_drv TOOL)
      testing/                            conformance suite, emulated and simulated devices
      cluster/                            devices of other machines
      plugin/                             the base of backends outside this package
      lowlevel.py                         re-exports what amd/ knows, for tools and bring-up
      context.py                          Context: what init() returns
      sched/                              model decide shard health journal check run graph
      mesh/                               moves bytes: links, routes, transports, collectives
      ops/                                gemm conv2d map reduce layout: tile plan + dispatch
      core/                               Device Buffer Array Kernel Commands Queue Fence Pipeline
      codegen/{glsl,rdna}                 kernels made at run time; backends get the result
      backends/{cpu,egl,cuda,amdgpu}      the Backend protocol (backends/base.py), no policy
      amd/                                AMD's packets, instructions, code objects, recordings
      _hot (C from native/hot)            the launch path, and repeated calls of ops
      _native (cffi, C from native/)      command replay, CPU kernels, dlopen'ed drivers, ioctls
    leaves (import nothing above them): telemetry/ saved_files.py assets.py types.py errors.py
                                          fork_lock.py version.py

Imports point down only and never form a circle. tests/package/test_layers.py enforces that, and
tools/_loc/layers.py has the order. `python3 tools/loc.py --rooms` prints each folder's imports.
"""

TYPE_CHECKING = False  # not typing.TYPE_CHECKING, because importing typing takes 7 ms
if TYPE_CHECKING:
    from sparkle_drv import ops as ops
    from sparkle_drv.context import Context as Context
    from sparkle_drv.context import init as init
    from sparkle_drv.core.array import Array as Array
    from sparkle_drv.core.buffer import Buffer as Buffer
    from sparkle_drv.core.commands import Commands as Commands
    from sparkle_drv.core.device import Device as Device
    from sparkle_drv.core.fence import Fence as Fence
    from sparkle_drv.core.interop import wrap as wrap
    from sparkle_drv.core.kernel import Kernel as Kernel
    from sparkle_drv.core.pipeline import Pipeline as Pipeline
    from sparkle_drv.core.queue import Queue as Queue
    from sparkle_drv.core.registry import devices as devices
    from sparkle_drv.core.registry import discover as discover
    from sparkle_drv.core.registry import open_device
    from sparkle_drv.core.timestamp import Timestamp as Timestamp
    from sparkle_drv.errors import DeviceLost as DeviceLost
    from sparkle_drv.errors import DeviceNotFound as DeviceNotFound
    from sparkle_drv.errors import DriverCallError as DriverCallError
    from sparkle_drv.errors import FenceTimeout as FenceTimeout
    from sparkle_drv.errors import ImageError as ImageError
    from sparkle_drv.errors import KernelFault as KernelFault
    from sparkle_drv.errors import OutOfDeviceMemory as OutOfDeviceMemory
    from sparkle_drv.errors import SparkleError as SparkleError
    from sparkle_drv.mesh.mesh import Mesh as Mesh
    from sparkle_drv.mesh.topology import Topology as Topology
    from sparkle_drv.sched.journal.journal_replay import replay as replay
    from sparkle_drv.types import CacheLevel as CacheLevel
    from sparkle_drv.types import DeviceInfo as DeviceInfo
    from sparkle_drv.types import Found as Found
    from sparkle_drv.types import Memory as Memory
    from sparkle_drv.types import Resources as Resources
    from sparkle_drv.types import TilePlan as TilePlan

    open = open_device
    from sparkle_drv import version

    __version__ = version.VERSION

# public name -> (module, name in the module); "" stands for the module itself
_WHERE = {
    "ops": ("ops", ""),
    "Context": ("context", "Context"),
    "init": ("context", "init"),
    "Mesh": ("mesh.mesh", "Mesh"),
    "Topology": ("mesh.topology", "Topology"),
    "replay": ("sched.journal.journal_replay", "replay"),
    "open": ("core.registry", "open_device"),
    "devices": ("core.registry", "devices"),
    "discover": ("core.registry", "discover"),
    "wrap": ("core.interop", "wrap"),
    "Array": ("core.array", "Array"),
    "Buffer": ("core.buffer", "Buffer"),
    "Commands": ("core.commands", "Commands"),
    "Device": ("core.device", "Device"),
    "Fence": ("core.fence", "Fence"),
    "Kernel": ("core.kernel", "Kernel"),
    "Pipeline": ("core.pipeline", "Pipeline"),
    "Queue": ("core.queue", "Queue"),
    "Timestamp": ("core.timestamp", "Timestamp"),
    "CacheLevel": ("types", "CacheLevel"),
    "DeviceInfo": ("types", "DeviceInfo"),
    "Found": ("types", "Found"),
    "Memory": ("types", "Memory"),
    "Resources": ("types", "Resources"),
    "TilePlan": ("types", "TilePlan"),
    "DeviceLost": ("errors", "DeviceLost"),
    "DeviceNotFound": ("errors", "DeviceNotFound"),
    "DriverCallError": ("errors", "DriverCallError"),
    "FenceTimeout": ("errors", "FenceTimeout"),
    "ImageError": ("errors", "ImageError"),
    "KernelFault": ("errors", "KernelFault"),
    "OutOfDeviceMemory": ("errors", "OutOfDeviceMemory"),
    "SparkleError": ("errors", "SparkleError"),
    "__version__": ("version", "VERSION"),
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> object:
    import importlib

    try:
        module, attribute = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'sparkle_drv' has no attribute {name!r}") from None
    value = importlib.import_module(f"sparkle_drv.{module}")
    result = getattr(value, attribute) if attribute else value
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
