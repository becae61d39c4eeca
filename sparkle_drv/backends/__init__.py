"""One folder a backend: small objects over opaque handles that implement base.py. No policy."""
