//! Every bound on what a server may cost the gateway, in one place.
//!
//! A server can be slow, broken or hostile, and each of these bounds holds for one connection to
//! one server, whatever the others do. Times and sizes are the gateway's own; the configuration
//! sets `connect_timeout` and the deadline of a call.

use std::time::Duration;

// Messages from a server.

/// The longest message, in bytes: a line on stdout, an HTTP body or an event of a stream. A longer
/// one is dropped while it is read.
pub(super) const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Memory that a message may take once it is parsed, in bytes. Dense JSON takes eighty times its
/// text.
pub(super) const MAX_TREE_BYTES: usize = 32 << 20;
/// The longest message that is read for nothing but a word to the protocol (a cancellation, an
/// acknowledgement), in bytes.
pub(super) const MAX_NOTIFICATION_BYTES: usize = 64 << 10;
/// The longest body of an HTTP error, in bytes.
pub(super) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;
/// The longest identifier that a server may choose, of a request, a session or an event, in bytes.
pub(super) const MAX_ID_BYTES: usize = 1 << 10;
/// The name of a method that a server asks for is cut here, in bytes.
pub(super) const MAX_METHOD_BYTES: usize = 128;

// Messages that the gateway did not ask for. Their cost is counted in tokens, see `Meter`.

/// Requests of a server that may wait for their answers. One more is a flood.
pub(super) const MAX_UNANSWERED: usize = 64;
/// Time in which a server gets one token back: it may spend ten thousand a second for as long as it
/// likes.
pub(super) const TOKEN_TIME: Duration = Duration::from_micros(100);
/// Tokens that a server may spend at once.
pub(super) const BURST_TOKENS: u32 = 10_000;
/// A server that has spent all its tokens is read no faster than it gets new ones. One that stays
/// there for so long floods.
pub(super) const FLOOD_PATIENCE: Duration = Duration::from_secs(3);
/// A message costs one token, and one more for so many bytes.
pub(super) const BYTES_PER_TOKEN: usize = 1 << 10;
/// Tokens for what `rmcp` starts a task for: a request, which has to be answered, or a word on a
/// subscription.
pub(super) const REQUEST_TOKENS: u32 = 10;
/// Tokens for a stream of events that the gateway opens because the server ended the last one.
pub(super) const STREAM_TOKENS: u32 = 1_000;
/// A stream of events that ends is opened again no sooner and no later than this, whatever the
/// server asks for.
pub(super) const STREAM_RETRY_MILLIS: std::ops::RangeInclusive<u64> = 1_000..=60_000;

// Messages to a server.

/// Requests on their way at one time: more than the calls that may run, so that pings find room.
pub(super) const MAX_PENDING: usize = MAX_RUNNING * 2;
/// Cancellations and answers on their way at one time: as many as there can be.
pub(super) const MAX_CONTROL: usize = MAX_ABANDONED + MAX_UNANSWERED;
/// A ping that finds no room is tried again after this, for as long as a ping may take.
pub(super) const FULL_RETRY: Duration = Duration::from_millis(200);
/// Calls that were given up and whose server is still to be told.
pub(super) const MAX_ABANDONED: usize = 256;
/// A cancellation that takes longer to send is of no use any more.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

// Calls.

/// Calls that run at one time on one server.
pub(super) const MAX_RUNNING: usize = 32;
/// Calls of one tenant that run at one time on one server, so that others find turns.
pub(super) const MAX_RUNNING_OF_ONE: usize = MAX_RUNNING / 4 * 3;
/// Calls that may wait for their turn; beyond it the answer is "busy". One tenant gets three
/// quarters of the places.
pub(super) const MAX_WAITING: usize = 128;
/// How places are divided, see [`Shares`](crate::tenant::Shares).
pub(super) const PLACES_WEIGHT: usize = 3;
/// A result beyond this is refused, in bytes.
pub(super) const MAX_RESULT_BYTES: usize = 1 << 20;
/// A tool's message about its failure is cut here, in bytes.
pub(super) const MAX_FAILURE_BYTES: usize = 16 << 10;
/// Characters of a raw result that stand in for a message.
pub(super) const MAX_RAW_CHARS: usize = 2_000;

// Lists of tools.

/// Pages read at most.
pub(super) const MAX_PAGES: usize = 100;
/// JSON text of all tools together, in bytes.
pub(super) const MAX_LIST_BYTES: usize = 4 << 20;
/// Reasons for tools that are left out, told about one list.
pub(super) const MAX_COMPLAINTS: usize = 20;
/// A reason for a tool that is left out is cut here, in bytes.
pub(super) const MAX_COMPLAINT_BYTES: usize = 200;
/// A list is read again this long after a change, so that many changes cost one reading. While it
/// keeps changing, the wait grows as it does between attempts to connect.
pub(super) const SETTLE: Duration = Duration::from_millis(200);

// Connections.

/// An idle server is asked whether it is there this often.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);
/// A server that is idle answers a ping in less.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// A subscription that ends is renewed after this.
pub(super) const RENEW: Duration = Duration::from_secs(5);
/// Time for a connection to be taken down on our side, before its process is.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The second attempt in a row to connect waits this long, each further one twice as long.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
/// No attempt waits longer.
pub(super) const LAST_RETRY: Duration = Duration::from_mins(1);
/// A connection that lived this long was a good one: the count of attempts starts anew.
pub(super) const STABLE: Duration = Duration::from_mins(1);
/// The least wait before a server that flooded the gateway is connected again.
pub(super) const FLOOD_PAUSE: Duration = Duration::from_secs(10);
/// Time for reaching an HTTP host; what comes after it has deadlines of its own.
pub(super) const HTTP_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP requests open at one time; calls have a bound of their own below it.
pub(super) const MAX_HTTP_REQUESTS: usize = 64;
/// HTTP redirects followed in a row.
pub(super) const MAX_REDIRECTS: usize = 3;

// Child processes.

/// Kept of what a server writes to stderr, in bytes.
pub(super) const KEPT_STDERR_BYTES: usize = 16 << 10;
/// Read of it without a pause, in bytes.
pub(super) const STDERR_BURST_BYTES: usize = 4 << 20;
/// The pause: 16 MiB a second are noise enough.
pub(super) const STDERR_PAUSE: Duration = Duration::from_millis(250);
/// Told of it when the server dies, in bytes.
pub(super) const TOLD_STDERR_BYTES: usize = 1 << 10;
/// How long a server may take to end once its stdin is closed, and again once it is asked to.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How long the rest of its stderr may take once it is gone; another process may have inherited the
/// pipe and kept it.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(100);

// What the operator and the caller read of a server.

/// Why there is no connection is cut here, in bytes.
pub(super) const MAX_REASON_BYTES: usize = 2 << 10;
/// Text that is looked at to tell the operator of it, before it is cut to what is told, in bytes.
pub(super) const MAX_SAID_BYTES: usize = 64 << 10;
/// A server's text inside another message (an HTTP body, a header) is cut here, in bytes.
pub(super) const MAX_QUOTE_BYTES: usize = 200;
/// A protocol version in the log is cut here, in bytes.
pub(super) const MAX_VERSION_BYTES: usize = 32;
/// Shorter values of the configuration are more likely to be words than credentials, in bytes;
/// masking them would garble every message.
pub(super) const SHORTEST_SECRET: usize = 8;

// Threads.

/// The fewest and the most threads for all servers together; between them, one for each CPU.
pub(super) const THREADS: std::ops::RangeInclusive<usize> = 2..=8;
/// How long a runtime that is dropped may take to end its tasks, so that no child process outlives
/// it.
pub(super) const RUNTIME_SHUTDOWN: Duration = Duration::from_secs(1);
