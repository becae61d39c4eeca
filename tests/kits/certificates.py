"""Certificates for tests of the transport; benchmarks make theirs the same way."""

from _cluster.certificates import LOOPBACK, Issuer, self_signed

__all__ = ["LOOPBACK", "Issuer", "self_signed"]
