"""Indirect buffers (IBs): reads, prints, parses, follows, lints and compares them.

tools/pm4.py, bring-up and record/ use it through sparkle_drv.lowlevel. The packets are declared in
tables/. The backend does not need this folder to run.

    model.py                 Ib: dwords, address, generation and queue
    read.py                  detects text, hex, bytes or capture, and reads it
    lex.py, parse.py         the text form: its grammar; from text to dwords
    print.py                 from dwords to the text form
    shape.py                 elements that text may leave out: names, defaults, for both directions
    dwords.py                hex and raw bytes, both ways
    capture.py               the emulator's traces of drivers, back to dwords
    devcoredump.py, umr.py, mesa.py    dumps of IBs by the kernel, umr and Mesa, to dwords
    run.py                   order of execution: follows INDIRECT_BUFFER
    state.py                 the values of registers at each dispatch
    diff.py                  compares two inputs by what dispatches find
    lookup.py                finds registers by name, part of it, or offset
    lint.py, rule.py         runs the lint rules; defines rules and jobs
    rules_packet.py, rules_dispatch.py, rules_job.py    the rules, by how much each looks at
"""
