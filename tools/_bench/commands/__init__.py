"""The subcommands of bench.py: each declares its options and names the function that runs it.

measure/ measures a row, report/ shows it. bench.py calls the commands; the scripts in benchmarks/
call none.

    run.py, kernel.py        run, peak and launch; kernel: a user's own kernel
    runner.py                makes the jobs, measures each, writes the files after each row
    resume.py                --resume: reuses rows of an earlier run and keeps their order
    transfer.py, tune.py     times copies and fits lines to the times; searches better tile plans
    compare.py, baseline.py  two results files; `make perf` and the committed baselines
    facts.py                 list and env, which print the kernels and the machine
    listing.py               the table of kernels that list prints
    options.py               options that several commands share, exit codes
"""
