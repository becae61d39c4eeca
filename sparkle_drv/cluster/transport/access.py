"""Zenoh's access rules: who may send, receive and see which messages, by the certificate.

Zenoh knows a link's other end by the common name of its certificate. It compares whole common
names, and reads its rules once, when a session opens. So the common names come from a fixed list
(COMMON_NAMES): the CA gives each client one of CLIENTS, and all nodes and routers have their role.

Every key expression names the client whose message it carries, and that name begins with the
client's common name. A client's rights end at its own keys. Nodes and routers pass on the messages
of all others.
"""

from __future__ import annotations

from typing import Any

CLIENTS = tuple(f"client-{number:03}" for number in range(256))
"""Common names of clients. A node needs 0.1 s to read the rules of so many."""
ROUTERS = ("node", "router")
"""Common names of the endpoints that pass messages on."""
KEYS = "sparkle/**"
"""The Zenoh key expression of all messages and liveliness tokens of this package."""
_MARK = "~"  # ends the common name in the name of a client's endpoint; no node's name has it
_MESSAGES = ("put", "declare_subscriber", "liveliness_token", "declare_liveliness_subscriber")


def client_endpoint(common_name: str, suffix: str) -> str:
    """Returns the name of a client's endpoint. `common_name` is that of its certificate."""
    return f"{common_name}{_MARK}{suffix}"


def place(name: str) -> str:
    """Returns the part of key expressions that names an endpoint: its role and name."""
    return f"client/{name}" if _MARK in name else f"node/{name}"


def message_key(to: str, sender: str, lane: str) -> str:
    """Returns the key expression of messages to the endpoint `to`."""
    return f"sparkle/{place(to)}/{sender}/{lane}"


def token_key(name: str, session: str) -> str:
    """Returns the key expression of a liveliness token of the endpoint `name`."""
    return f"sparkle/alive/{place(name)}/{session}"


def rules(node: bool) -> dict[str, Any]:
    """Returns the rules of a node or a client as Zenoh's setting `access_control`. What no rule
    allows is denied.
    """
    everything = _rule("everything", [KEYS], ["ingress", "egress"], _MESSAGES)
    if not node:  # its only link leads to a node
        return _setting([everything], [{"id": "all"}], [("all", ["everything"])])
    rows = [
        everything,
        _rule("watch", [token_key("*", "*")], ["ingress"], ["declare_liveliness_subscriber"]),
        _rule("see", [token_key("*", "*")], ["egress"], ["liveliness_token"]),
    ]
    # Plain links exist on loopback only, and their ends have no name.
    subjects: list[dict[str, Any]] = [
        {"id": "loopback", "link_protocols": ["tcp"]},
        {"id": "routers", "cert_common_names": list(ROUTERS)},
    ]
    policies = [("loopback", ["everything"]), ("routers", ["everything"])]
    for name in CLIENTS:
        own = client_endpoint(name, "$*")
        keys = [message_key(own, "*", "*"), message_key("*", own, "*"), token_key(own, "*")]
        rows.append(_rule(name, keys, ["ingress", "egress"], _MESSAGES))
        subjects.append({"id": name, "cert_common_names": [name]})
        policies.append((name, [name, "watch", "see"]))
    return _setting(rows, subjects, policies)


def _rule(
    name: str, keys: list[str], flows: list[str], messages: tuple[str, ...] | list[str]
) -> dict[str, Any]:
    return {
        "id": name, "messages": list(messages), "flows": flows, "permission": "allow",
        "key_exprs": keys,
    }  # fmt: skip


def _setting(
    rows: list[dict[str, Any]],
    subjects: list[dict[str, Any]],
    policies: list[tuple[str, list[str]]],
) -> dict[str, Any]:
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rows,
        "subjects": subjects,
        "policies": [{"rules": names, "subjects": [subject]} for subject, names in policies],
    }
