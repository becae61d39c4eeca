"""What scripts and tests need from inside of the package: plans and rules of the scheduler and of
the mesh, judged on random machines.

Only this folder of benchmarks/ may import parts of the package that are not public.

    juggler.py            how far the scheduler is from the best choices
    rule_ablation.py      how good the scheduler is without one of its rules
    placements.py         random task graphs, and their schedules without one of the methods
    mesh_plan_quality.py  how good the mesh planner's choice is
    collectives.py        judges plans of collectives; draws random networks
    shards/               random machines; simulated runs of split calls
    calls.py              what a C program needs to repeat a submission
"""
