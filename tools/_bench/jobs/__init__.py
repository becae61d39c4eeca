"""What is to be run: kernels with operands, costs and oracles, and the axes that give their sizes.

job.py is the type; workloads.py makes jobs of the manifest's kernels, user_kernel.py of a user's
own; arith.py and axes.py read what the user typed; fills.py makes inputs. Plain data: no device is
opened and no time is taken. Called by measure/, tune/ and commands/.
"""
