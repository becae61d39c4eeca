"""Who may speak to whom: certificates of one CA, the handshake of a session, revocation.

identity.py        Identity: a name, a role, certificate and key; read from SPARKLE_HOME/cluster
authority.py       the CA: makes certificates and signs the revocation list
handshake.py       three messages that prove both certificates and agree on keys
"""
