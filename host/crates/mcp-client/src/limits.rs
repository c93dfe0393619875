//! Bounds on the resources that a server may use, all in one place.
//!
//! A server can be slow, broken or hostile. Each of these bounds holds for one connection to one
//! server, whatever the other servers do. Times and sizes are fixed by the gateway; the configuration
//! sets `startup_timeout` and the deadline of a call.

use std::time::Duration;

// Messages from a server.

/// Maximum length of a message, in bytes: a line on stdout, an HTTP body or an event of a stream.
/// A longer one is dropped while it is read. Four times the largest result, which is longer as
/// JSON. All items of a list together have as much, for a list that comes in pages: they are kept
/// for as long as the server is connected.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Maximum memory of a parsed message, and of the items of a list, in bytes. Dense JSON takes
/// up to 150 times the size of its text, so the length alone bounds it to 600 MiB.
pub const MAX_TREE_BYTES: usize = 32 << 20;
/// Maximum length of a notification, in bytes. A longer one is dropped unread: those of the
/// protocol have a few hundred, and a log message is one line.
pub(super) const MAX_NOTIFICATION_BYTES: usize = 64 << 10;
/// Maximum length of the body of an HTTP error, in bytes. Only its beginning is quoted; JSON has
/// to be read to its end.
pub(super) const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

// Unsolicited messages from a server. Their cost is counted in tokens, see `TokenBucket`.

/// Maximum pending requests of a server. One more is a flood: each takes an entry until it is
/// answered, and a server that reads its responses has few.
pub(super) const MAX_UNANSWERED: usize = 64;
/// Time in which a server regains one token: it may spend ten thousand tokens per second for an
/// unlimited time.
pub(super) const TOKEN_TIME: Duration = Duration::from_micros(100);
/// Tokens that a server may spend at once.
pub(super) const BURST_TOKENS: u32 = 10_000;
/// Maximum time for which a server may stay over its rate. A server that has spent all its tokens
/// is read no faster than it regains them. If that lasts for this time, the server floods the
/// gateway.
pub const FLOOD_TOLERANCE: Duration = Duration::from_secs(3);
/// Bytes of a message that cost one token, in addition to one token for each message.
pub(super) const BYTES_PER_TOKEN: usize = 1 << 10;
/// Tokens for a request, which must be answered.
pub(super) const REQUEST_TOKENS: u32 = 10;
/// Tokens for a stream of events that the gateway opens because the server ended the previous one.
pub(super) const STREAM_TOKENS: u32 = 1_000;
/// Minimum and maximum delay before an ended stream of events is opened again, in milliseconds,
/// whatever delay the server asks for.
pub(super) const STREAM_RETRY_MILLIS: std::ops::RangeInclusive<u64> = 1_000..=60_000;

/// Maximum notifications of a server that wait to be passed on. Further ones are dropped, because
/// a reader that is behind learns from the first ones that a list has changed. The longest ones take
/// 16 MiB.
pub(super) const MAX_EVENTS: usize = 256;
/// Reports of progress of one request that wait to be passed on. Further ones are dropped.
pub(super) const PROGRESS_QUEUE: usize = 64;

/// Time after a caller has abandoned a request in which log messages and questions are not passed
/// on to its own tenant either, because they may still refer to the request.
pub(super) const LOG_QUARANTINE: Duration = Duration::from_secs(10);
/// Time limit for a server to confirm a level of log messages.
pub(super) const LOG_LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

// Questions of a server to a caller.

/// Maximum questions that a server asks at a time. A person answers them within five minutes.
pub const MAX_QUESTIONS: usize = 16;
/// Maximum length of the questions that a server asks at a time, in bytes, and of the state that a
/// modern server wants back with the answers. With the most requests that may wait for answers,
/// each of them takes 16 MiB.
pub(super) const MAX_QUESTION_BYTES: usize = 64 << 10;
/// Maximum requests of one server that wait for answers, of 32 tenants with as many as each may
/// have. Each holds its questions and a state of at most 64 KiB each.
pub const MAX_PARKED: usize = 256;
/// Maximum questions of one connection that callers have, in requests of the server: all
/// questions of all requests that may wait. It holds for callers that keep theirs for longer,
/// too.
pub(super) const MAX_ASKED: usize = MAX_PARKED * MAX_QUESTIONS;
/// Maximum number of abandoned requests without a response whose tenants are remembered.
/// Beyond it, no caller is asked until the next connection, because a question may belong to a
/// forgotten request. A server that responds late has far fewer.
pub(super) const MAX_KEPT_ABANDONED: usize = 1_024;

// Messages to a server.

/// Maximum requests that wait to be written, or are in flight over HTTP: twice the calls that run
/// by default, so that pings and lists find a place.
pub const MAX_REQUESTS_IN_FLIGHT: usize = DEFAULT_RUNNING * 2;
/// Delay before a ping that found no free place is tried again, until [`PING_TIMEOUT`] ends.
pub(super) const PING_RETRY: Duration = Duration::from_millis(200);
/// Maximum abandoned calls whose cancellations wait to be sent. Beyond it, a cancellation is not
/// sent: it is advice, and the server does not read.
pub(super) const MAX_ABANDONED: usize = 256;
/// Maximum cancellations of tasks that wait for the server. Further ones are not sent: they hold no permits of
/// calls, and would take the places of requests, of which they get a quarter.
pub(super) const MAX_TASK_CANCELLATIONS: usize = 16;
/// Time limit for sending a cancellation. A later one has no use.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

// Calls.

/// Default of `max_concurrent_calls`, the running calls on one server.
pub const DEFAULT_RUNNING: usize = 32;
/// Default of `max_waiting_calls`, the calls that wait for a permit; a further call fails as
/// busy. One tenant gets three quarters of the places.
pub const DEFAULT_WAITING: usize = 128;

// Lists of tools.

/// Maximum pages of a list. It bounds a list of empty pages, which the bytes do not; 20 tools a
/// page fill a catalog.
pub const MAX_PAGES: usize = 100;
/// Time limit for reading a whole list. The pages that were read by then are kept.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(30);

// Connections.

/// Time for a server to answer `server/discover`, before `initialize` is sent too. A legacy server
/// need not answer a method that it does not know.
pub(super) const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// Default time for starting a server and the handshake: a package runner such as `npx` may have to
/// download the server first.
pub(super) const STARTUP_TIMEOUT: Duration = Duration::from_mins(2);
/// Time to learn the reason that a connection ended, once the handshake has failed with it.
pub(super) const END_PATIENCE: Duration = Duration::from_millis(500);
/// Default interval between checks of an idle server.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);
/// Time in which an idle server must answer a ping.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Default interval at which the memory of a process is looked at that has a bound on it. Each look reads
/// the state of all processes of the machine.
pub(super) const MEMORY_CHECK: Duration = Duration::from_secs(5);
/// Time limit for closing a connection on the gateway's side, before its process is stopped.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before the second consecutive retry to connect. Each further retry waits twice as long.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Maximum delay before a retry.
pub const LAST_RETRY: Duration = Duration::from_mins(1);
/// Time after which a connection counts as stable, which resets the count of attempts.
pub(super) const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Maximum HTTP requests in flight that carry a notification or a response; further ones wait.
/// They are apart from requests, so that a cancellation is sent while all calls hang. Each holds a
/// socket until the server responds, which takes no more than a status (MCP 2025-11-25, section
/// Transports).
pub(super) const MAX_HTTP_CONTROL: usize = 32;
/// Maximum attempts to resume a stream of events without a new event, after which its request
/// fails: enough for a server that restarts, few for one that ends each stream.
pub(super) const MAX_RESUMPTIONS: u32 = 5;
/// Time limit for ending a session at the server.
pub(super) const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);

// Child processes.

/// Bytes that are kept from the end of a server's stderr.
pub(super) const KEPT_STDERR_BYTES: usize = 64 << 10;
/// Length to which a line of stderr is cut, in bytes. A trace has shorter ones; a dump of a
/// request is one line of megabytes.
pub(super) const MAX_STDERR_LINE_BYTES: usize = 2 << 10;
/// Bytes of stderr that are read without a pause.
pub(super) const STDERR_BURST_BYTES: usize = 4 << 20;
/// Pause after [`STDERR_BURST_BYTES`], which limits stderr to 16 MiB per second.
pub(super) const STDERR_PAUSE: Duration = Duration::from_millis(250);
/// Bytes of stderr that are reported when the server dies.
pub(super) const REPORTED_STDERR_BYTES: usize = 1 << 10;
/// Lines of stderr that are reported when the server dies.
pub(super) const REPORTED_STDERR_LINES: usize = 10;
/// Bytes of stderr that are shown to operators.
pub(super) const SHOWN_STDERR_BYTES: usize = 64 << 10;
/// Processes of one server whose stderr is stored: the last one, and the one before it.
pub(super) const STDERR_SOURCES: usize = 2;
/// Time in which a server must exit after its stdin is closed, and again after SIGTERM.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for reading the rest of stderr after a server has exited. Another process may have
/// inherited the pipe and kept it open.
pub(super) const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

// Text of a server that the operator and the caller read.

/// Length to which a server's instructions for models are cut, in bytes. Each model reads them at
/// its start, which costs about 2,000 tokens.
pub(super) const MAX_INSTRUCTIONS_BYTES: usize = 8 << 10;
