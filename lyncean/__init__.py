"""The contracts between Lyncean's services and the one way to serve and dial them."""

import os

# gRPC's core reads this once, when it is first imported. By itself it writes every failed handshake
# and bind to stderr; each of them is also an exception or a status, which is said once and in words.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
