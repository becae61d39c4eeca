"""Devices of other machines. `sp.open("box1/cuda:0")` is a backend that speaks the Backend protocol
(backends/base.py) to a node on that machine. The extra `sparkle_drv[cluster]` installs its needs.

    wire/         messages as bytes: schema, limits, MAC; pure functions
    transport/    messages between named endpoints: Zenoh, and an in-process one with faults
    trust/        certificates, the handshake, revocation
    channel/      one session over a transport: order, at most once, bulk, credit
    node/         the process that lends devices: sessions, tables, lanes, quotas
    remote/       the backend of "box1/cuda:0"

wire, transport and trust import none of the others. channel imports those three. node and remote
import channel, and never each other.
"""
