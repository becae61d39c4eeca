"""What calls of gemm, conv2d and reduce have in common: the choice of a plan and its kernel.

shortcut makes the objects whose calls C tries first, planned launches for a plan. The rules of one
operation are in its own folder. The operations call it.
"""
