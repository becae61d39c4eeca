"""Who may speak to whom: certificates of one CA, the handshake of a session, revocation.

    handshake.py       three messages that prove both certificates and agree on keys
    keys.py            what a handshake ends with
    messages.py        fields of those messages and their limits; how a refusal travels
    renewal.py         certificates renew themselves, over a session too
    authority.py       the CA: makes certificates, signs requests, revokes keys
    identity.py        a name, a role, certificate and key; read from SPARKLE_HOME/cluster
    requests.py        keys, and requests for certificates
    revocation.py      the signed list of keys that are refused
    certificates.py    what a certificate says, and whether it holds now
    files.py           names, modes, reading and writing of the files

Only these modules import the package cryptography, and nothing imports them before it needs them.
"""
