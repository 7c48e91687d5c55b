"""Devices, which run programs. There is one, `cpu`, in a folder of its own; another one is another folder.

`api` is the protocol for everything above: a Device, and its Memory, Queue with Executable, Lowerer and Code. A device
takes planned programs and kernels by their keys, and gives launches, compiled code and values in buffers. `tuning` is
the record of thresholds by which passes decide for a device, `kernel_call` the call of one kernel. A device is known by
its number, which nodes and buffers have; nothing in the pipeline and the runtime imports one by its name, but for two
modules of `engine.pipeline.budget` (`constrain`, `spill_file`). Start with `api`.
"""
