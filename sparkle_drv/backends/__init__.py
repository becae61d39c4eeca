"""One folder a backend, each a small object over opaque handles that implements the protocol in
base.py: no policy.
"""
