"""Devices of other machines. `sp.open("box1/cuda:0")` is a backend that speaks the Backend protocol
(backends/base.py) to a node on that machine. The extra `sparkle_drv[cluster]` installs the packages
that it needs.

    wire/         messages as bytes: fields, limits, MAC; pure functions
    transport/    messages between named endpoints, over Zenoh or inside a process with faults
    trust/        certificates, the handshake, revocation
    channel/      one session over a transport: items in order and once, bulk transfers, credit
    node/         the process that lends its devices to clients
    remote/       the backend of "box1/cuda:0"
    few_lines.py  limits the lines that strangers cause in a log

wire, transport and trust import none of the others. channel imports those three. node and remote
import channel, and never each other.
"""
