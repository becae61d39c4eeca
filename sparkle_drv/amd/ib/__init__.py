"""Indirect buffers (IBs): reads, prints, parses, follows, lints and compares them.

tools/pm4.py, bring-up and record/ use it through sparkle_drv.lowlevel. The packets are declared in
tables/; the backend does not need this folder to run.

    model.py                 Ib: dwords, address, generation and queue
    read.py                  detects text, hex, bytes or capture, and reads it
    lex.py, parse.py         the text form: its grammar; from text to dwords
    print.py                 from dwords to the text form
    shape.py                 what text may leave out: names and defaults for both directions
    dwords.py                hex and raw bytes, both ways
    capture.py               the emulator's traces of drivers, back to dwords
    devcoredump.py, umr.py, mesa.py    what the kernel, umr and Mesa print of IBs, to dwords
    run.py                   order of execution: follows INDIRECT_BUFFER
    state.py                 what registers hold at each dispatch
    diff.py                  compares two inputs by what dispatches find
    lookup.py                finds registers by name, part of it, or offset
    lint.py, rule.py         runs the lint rules; what a rule and a job are
    rules_packet.py, rules_dispatch.py, rules_job.py    the rules, by how much each looks at
"""
