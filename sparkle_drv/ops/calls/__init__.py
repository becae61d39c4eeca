"""What calls of all operations have in common: the choice of a plan, and the call table.

plans.py decides a plan once per device and shape (tuned, else the model's) and loads its kernel.
planned.py is the call of a plan. table.py makes the rows by which C repeats a call. The rules of
one operation are in its own folder. The operations call it.
"""
