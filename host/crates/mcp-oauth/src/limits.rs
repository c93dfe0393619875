//! Bounds on texts of servers, for logins and for all else that a client reads of a server, and on what is remembered
//! of their users.

/// Length to which the reason of a failure is cut, in bytes. It has one line for each of its
/// causes, and servers write some of them.
pub const MAX_REASON_BYTES: usize = 2 << 10;
/// Maximum length of a URL that a server names, in bytes. Common servers accept 8 KiB in the head
/// of a request.
pub const MAX_URL_BYTES: usize = 8 << 10;
/// Maximum logins and links of users that a process remembers: each user of a server adds one. What is beyond them works
/// without: a connection has a backoff of its own, and a link is made anew.
pub(super) const MAX_REMEMBERED: usize = 10_000;
