"""Trust between machines: certificates of one CA, the handshake of a session, revocation.

    handshake.py       three messages that prove both certificates and agree on keys
    keys.py            the result of a handshake
    messages.py        fields of handshake messages and their limits; how a refusal is sent
    renewal.py         renews certificates, also over a session
    authority.py       the CA: makes certificates, signs requests, revokes keys
    identity.py        a name, a role, certificate and key; read from SPARKLE_HOME/cluster
    requests.py        a machine's key, and requests for certificates
    revocation.py      the signed list of keys that are refused
    certificates.py    the content of a certificate, and whether it is valid now
    files.py           names, modes, reading and writing of the files

Only these modules import the package cryptography, and they are imported only when needed.
"""
