//! Bounds on the resources that a server may use, all in one place.
//!
//! A server can be slow, broken or hostile. Each of these bounds, except those under *Threads*,
//! holds for one connection to one server, whatever the other servers do. Times and sizes are fixed
//! by the gateway; the configuration sets `connect_timeout` and the deadline of a call.

use std::time::Duration;

// Messages from a server.

/// Maximum length of a message, in bytes: a line on stdout, an HTTP body or an event of a stream. A
/// longer one is dropped while it is read.
pub(super) const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Maximum memory of a parsed message, in bytes. Dense JSON takes eighty times the size of its
/// text.
pub(super) const MAX_TREE_BYTES: usize = 32 << 20;
/// Maximum length of a message that only concerns the protocol (a cancellation, an
/// acknowledgement), in bytes.
pub(super) const MAX_NOTIFICATION_BYTES: usize = 64 << 10;
/// Maximum length of the body of an HTTP error, in bytes.
pub(super) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
/// Maximum length of an identifier that a server chooses, of a request, a session or an event, in
/// bytes.
pub(super) const MAX_ID_BYTES: usize = 1 << 10;
/// Length to which the method name of a server's request is cut, in bytes.
pub(super) const MAX_METHOD_BYTES: usize = 128;

// Unsolicited messages from a server. Their cost is counted in tokens, see `TokenBucket`.

/// Maximum pending requests of a server. One more is a flood.
pub(super) const MAX_UNANSWERED: usize = 64;
/// Time in which a server regains one token: it may spend ten thousand tokens per second for an
/// unlimited time.
pub(super) const TOKEN_TIME: Duration = Duration::from_micros(100);
/// Tokens that a server may spend at once.
pub(super) const BURST_TOKENS: u32 = 10_000;
/// Maximum time for which a server may stay over its rate. A server that has spent all its tokens
/// is read no faster than it regains them. If that lasts for this time, the server floods the
/// gateway.
pub(super) const FLOOD_TOLERANCE: Duration = Duration::from_secs(3);
/// Bytes of a message that cost one token, in addition to one token for each message.
pub(super) const BYTES_PER_TOKEN: usize = 1 << 10;
/// Tokens for a message for which `rmcp` starts a task: a request, which must be answered, or a
/// notification about a subscription.
pub(super) const REQUEST_TOKENS: u32 = 10;
/// Tokens for a stream of events that the gateway opens because the server ended the previous one.
pub(super) const STREAM_TOKENS: u32 = 1_000;
/// Minimum and maximum delay before an ended stream of events is opened again, in milliseconds,
/// whatever delay the server asks for.
pub(super) const STREAM_RETRY_MILLIS: std::ops::RangeInclusive<u64> = 1_000..=60_000;

// Messages to a server.

/// Maximum requests in flight: more than the calls that may run, so that pings find a free slot.
pub(super) const MAX_REQUESTS_IN_FLIGHT: usize = MAX_RUNNING * 2;
/// Maximum cancellations and responses in flight: as many as there can be.
pub(super) const MAX_CONTROL_IN_FLIGHT: usize = MAX_ABANDONED + MAX_UNANSWERED;
/// Delay before a ping that found no free slot is tried again, until [`PING_TIMEOUT`] ends.
pub(super) const PING_RETRY: Duration = Duration::from_millis(200);
/// Maximum abandoned calls whose cancellations wait to be sent.
pub(super) const MAX_ABANDONED: usize = 256;
/// Time limit for sending a cancellation. A later one has no use.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

// Calls.

/// Maximum running calls on one server.
pub(super) const MAX_RUNNING: usize = 32;
/// Maximum running calls of one tenant on one server, so that other tenants get permits.
pub(super) const MAX_RUNNING_PER_TENANT: usize = MAX_RUNNING / 4 * 3;
/// Maximum calls that wait for a permit; a further call fails as busy. One tenant gets three
/// quarters of the slots.
pub(super) const MAX_WAITING: usize = 128;
/// Weight that divides the slots among tenants, see [`Shares`](crate::tenant::Shares).
pub(super) const SLOTS_WEIGHT: usize = 3;
/// Maximum size of a result, in bytes. A larger one is refused.
pub(super) const MAX_RESULT_BYTES: usize = 1 << 20;
/// Length to which a tool's message about its failure is cut, in bytes.
pub(super) const MAX_FAILURE_BYTES: usize = 16 << 10;
/// Length to which the code of a tool's failure is cut, in bytes.
pub(super) const MAX_CODE_BYTES: usize = 64;
/// Maximum characters of a raw result that is used as a message.
pub(super) const MAX_RAW_CHARS: usize = 2_000;

// Lists of tools.

/// Maximum pages of a list.
pub(super) const MAX_PAGES: usize = 100;
/// Maximum JSON text of all tools together, in bytes.
pub(super) const MAX_LIST_BYTES: usize = 4 << 20;
/// Maximum reasons for left-out tools that are logged about one list.
pub(super) const MAX_SKIP_REASONS: usize = 20;
/// Length to which the reason for a left-out tool is cut, in bytes.
pub(super) const MAX_SKIP_REASON_BYTES: usize = 200;
/// Changes of a list after which further ones are delayed more and more.
pub(super) const QUICK_LIST_CHANGES: u32 = 4;
/// Delay before a list is read again after a change, so that many changes cost one reading. While
/// the list keeps changing, the delay grows as it does between attempts to connect.
pub(super) const LIST_CHANGE_DELAY: Duration = Duration::from_millis(200);

// Connections.

/// Interval between checks of an idle server.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);
/// Time in which an idle server must answer a ping.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before a subscription that ended is renewed.
pub(super) const SUBSCRIPTION_RETRY: Duration = Duration::from_secs(5);
/// Time limit for closing a connection on the gateway's side, before its process is stopped.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before the second consecutive retry to connect. Each further retry waits twice as long.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Maximum delay before a retry.
pub(super) const LAST_RETRY: Duration = Duration::from_mins(1);
/// Time after which a connection counts as stable, which resets the count of attempts.
pub(super) const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Minimum delay before a server that flooded the gateway is connected again.
pub(super) const FLOOD_COOL_DOWN: Duration = Duration::from_secs(10);
/// Time limit for connecting to an HTTP host; the later steps have deadlines of their own.
pub(super) const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum HTTP requests in flight. Calls have a lower bound of their own.
pub(super) const MAX_HTTP_REQUESTS: usize = 64;
/// Maximum consecutive HTTP redirects.
pub(super) const MAX_REDIRECTS: usize = 3;

// Child processes.

/// Bytes that are kept from the end of a server's stderr.
pub(super) const KEPT_STDERR_BYTES: usize = 16 << 10;
/// Bytes of stderr that are read without a pause.
pub(super) const STDERR_BURST_BYTES: usize = 4 << 20;
/// Pause after [`STDERR_BURST_BYTES`], which limits stderr to 16 MiB per second.
pub(super) const STDERR_PAUSE: Duration = Duration::from_millis(250);
/// Bytes of stderr that are reported when the server dies.
pub(super) const REPORTED_STDERR_BYTES: usize = 1 << 10;
/// Time in which a server must exit after its stdin is closed, and again after SIGTERM.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for reading the rest of stderr after a server has exited. Another process may have
/// inherited the pipe and kept it open.
pub(super) const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

// Text of a server that the operator and the caller read.

/// Length to which the reason for a missing connection is cut, in bytes.
pub(super) const MAX_REASON_BYTES: usize = 2 << 10;
/// Length to which a server's text inside another message (an HTTP body, a header) is cut, in
/// bytes.
pub(super) const MAX_QUOTE_BYTES: usize = 200;
/// Length to which a protocol version is cut in the log, in bytes.
pub(super) const MAX_VERSION_BYTES: usize = 32;
/// Minimum length of a configured value that is treated as a secret, in bytes. Shorter values are
/// more likely to be words than credentials, and redacting them would garble every message.
pub(super) const MIN_SECRET_BYTES: usize = 8;

// Threads.

/// Minimum and maximum threads for all servers together; between these bounds, one thread for each
/// CPU.
pub(super) const THREADS: std::ops::RangeInclusive<usize> = 2..=8;
/// Time in which a dropped runtime must end its tasks, so that no child process outlives it.
pub(super) const RUNTIME_SHUTDOWN: Duration = Duration::from_secs(1);
