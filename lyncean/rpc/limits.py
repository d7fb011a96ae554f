"""Bounds shared by both ends of every connection."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest message, either way. gRPC's own default is 4 MiB for receiving."""

MAX_DETAILS = 1024 * 1024
"""Characters that `Verdict.details` may hold."""

KEEPALIVE_TIME_MS = 20_000
"""Interval of the client's pings while calls are in flight: a dead peer is noticed within
about half a minute although a call may rightly take minutes."""

KEEPALIVE_TIMEOUT_MS = 10_000
"""Time without a reply to a ping after which a connection counts as dead; also the time in which
an accepted connection must send something."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Error details of a server; beyond 8 KiB gRPC drops metadata at random by default.
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.absolute_max_metadata_size", 128 * 1024),
    ("grpc.keepalive_time_ms", KEEPALIVE_TIME_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    # A minute by default, independent of the keepalive timeout.
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    # The engine retries: only it knows which requests were answered.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Despite its name the time limit of one attempt to connect.
    ("grpc.min_reconnect_backoff_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # One connection for each channel: the engine decides which sockets are shared.
    ("grpc.use_local_subchannel_pool", 1),
)
"""Options of every client channel."""

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A server that finds the client's pings too frequent ends the connection, and with it
    # every long call, so the bound stands below KEEPALIVE_TIME_MS.
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_TIME_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.so_reuseport", 0),
)
"""Options of every server."""
