"""Idempotency keys: who may do a thing, and what came of it, for as long as that is remembered.

A key is free, claimed, or has a result. A claim is a lease: when its worker dies it ends by itself, and the next who
asks takes the key over in the same statement. Only the owner of a claim, told by its token, may end it. A result lives
for its whole time from the moment it was stored; then the key is free again.
"""
