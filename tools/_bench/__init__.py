"""The engine behind tools/bench.py: one for every device, one idea a file.

A `Job` (jobs.py) says what to run and how to judge it; manifest kernels become jobs through the
workload table (workloads.py), users' kernels through argument specs (userkernel.py). `Bound`
(bound.py) puts a job on a device, `verify` judges outputs, `timing` samples, `stoprule` decides
when there is enough, `results` is the row that every writer prints. Nothing here is part of the
package; the package never imports it.
"""
