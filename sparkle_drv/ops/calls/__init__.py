"""What calls of gemm, conv2d and reduce have in common: the choice of a plan and its kernel.

plans.py decides a plan once per device and shape (tuned, else the model's) and loads its kernel.
planned.py is the call of a plan. shortcut.py makes the objects whose calls C tries first. The
rules of one operation are in its own folder. The operations call it.
"""
