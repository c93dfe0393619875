//! Lengths to which texts and lists of other parties are cut in messages. Such a text may have any length, and a
//! message is a line of a log or part of a conversation.

/// Maximum bytes of a word in a message: a code, a key, a short value. Those of protocols have at most some 30.
pub const MAX_WORD_BYTES: usize = 64;

/// Maximum bytes of a name in a message: twice the longest name of a tool that providers take, and as many as MCP
/// recommends for one (2025-11-25).
pub const MAX_NAME_BYTES: usize = 128;

/// Maximum bytes of a part of a longer text in a message, such as arguments or a header: two lines of a terminal.
pub const MAX_EXCERPT_BYTES: usize = 200;

/// Maximum bytes of the reason for a state where several are listed: a few lines of a terminal, which a server may have
/// written.
pub const MAX_REASON_BYTES: usize = 512;

/// Maximum bytes of a message that is shown as one line, such as a report of progress: many of them may wait for
/// their reader.
pub const MAX_LINE_BYTES: usize = 1 << 10;

/// Maximum bytes of the message of a failure. A script or an embedding program may fail with any text, such as a
/// whole result.
pub const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Maximum number of names in a message: a person reads all of them.
pub const MAX_NAMED: usize = 10;

/// Maximum number of entries of one list that are logged or reported one by one; of further ones, the message has
/// the number. A list may have thousands that all say the same.
pub const MAX_LISTED: usize = 20;
