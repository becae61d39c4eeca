"""Reads, prints, parses, follows, lints and compares indirect buffers (IBs).

tools/pm4.py, bring-up and record/ use this package through sparkle_drv.lowlevel. The packets are
declared in tables/. The backend does not need this package to run.

    model.py                 Ib: dwords, address, generation and queue
    read.py                  detects text, hex, bytes or capture, and reads it
    lex.py, parse.py         the text form: its grammar; from text to dwords
    print.py                 from dwords to the text form
    shape.py                 which elements the text form may leave out; names of packets
    dwords.py                hex and raw bytes, to dwords and back
    capture.py               the emulator's traces of drivers, to dwords
    devcoredump.py, umr.py, mesa.py    dumps of IBs by Linux, umr and Mesa, to dwords
    run.py                   order of execution: follows INDIRECT_BUFFER
    state.py                 the values of registers at each dispatch
    diff.py                  compares two lists of IBs by the registers at each dispatch
    lookup.py                finds registers by name, part of it, or offset
    lint.py, rule.py         runs the lint rules; defines rules and jobs
    rules_packet.py, rules_dispatch.py, rules_job.py    rules about a packet, a dispatch, a job
"""
