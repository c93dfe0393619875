//! Limits on a schema, on its compilation and on a check.

/// The largest schema, in bytes of JSON text, also of a tool that is not checked: models get it
/// with every request, and 256 KiB are 60,000 tokens.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// The most memory that the compiled schemas of one source of tools may take, in bytes: enough for thousands of ordinary
/// ones. A schema of 256 KiB may compile to many times its size: five with an `enum` of 100,000 values fill it.
pub const MAX_SOURCE_BYTES: usize = 64 << 20;

/// The deepest nesting of a schema, and of a value that is checked. The outermost value is at depth
/// 0. The stack of the compiler is sized for it: 64 levels with a reference at the bottom of each take
/// less than two megabytes, measured.
pub(super) const MAX_DEPTH: usize = 64;
/// The most subschemas that a document may have, counting those that its validator can reach. Each
/// takes about 600 bytes, so they take 2.5 MB; 256 KiB of text could have 80,000.
pub(super) const MAX_SUBSCHEMAS: usize = 4_096;
/// The most applications of subschemas in a document. A reference to an anchor applies every
/// subschema that has the anchor, so they multiply; each takes 32 bytes and is looked at by every
/// evaluation. A union of 200 forms with ten members each has 2,200.
pub(super) const MAX_EDGES: usize = 50_000;

/// The most evaluations of one value, without those of its members and items. References and
/// `anyOf` multiply the subschemas that the author wrote. A union of a thousand forms passes; a
/// fan-out of 2⁵ times 2⁵ levels does not.
pub(super) const MAX_EVALUATIONS: u64 = 1_024;
/// The most subschemas that may be evaluated inside each other, over the whole depth of a value.
/// Each takes up to 2 KiB of stack in `jsonschema`, measured. A check must fit into half a megabyte
/// of stack, because it may run on the stack of a guest's fiber.
pub(super) const MAX_NESTING: u64 = 256;
/// The most that a check may cost, in units of about 5 ns: 50 ms. For comparison, a guest may
/// compute for two seconds.
pub(super) const MAX_CHECK_WORK: u64 = 10_000_000;
/// The most memory of all errors of a value together, in bytes. The errors of 20 levels of a
/// recursion with two branches took gigabytes, measured.
pub(super) const MAX_ERROR_BYTES: u64 = 16 << 20;

/// The most work of compiling one document, in units of about a microsecond: 0.1 s. It bounds the
/// compiled patterns of a document to 2.5 MB as well, because each 25 bytes of them take one unit.
pub(super) const MAX_COMPILE_WORK: u64 = 100_000;
/// The most subschemas that are compiled for `unevaluated` keywords. Each level of
/// `allOf: [b, b]` doubles them. They take at most 6 MB.
pub(super) const MAX_COPIES: usize = 10_000;
/// The most different patterns of a document. Each has a cache of [`MAX_STATES_BYTES`] for each
/// thread, so the caches of a document take at most 4 MiB for each.
pub(super) const MAX_PATTERNS: usize = 64;
/// The longest pattern, in bytes. The parser of `regex` has no limit: a class such as `\pL` takes
/// two thousand times its text, and a pattern of 260 KB took gigabytes and half a minute, measured.
pub(super) const MAX_PATTERN_BYTES: usize = 1 << 10;
/// The largest compiled pattern, in bytes. `^.{1,100}$` takes 64 KiB, an e-mail address 4 KiB. A
/// pattern of 256 KiB takes up to 40 µs for each byte of text that it is matched with, measured.
pub(super) const MAX_COMPILED_BYTES: usize = 256 << 10;
/// The largest cache of DFA states of one pattern, in bytes, for each thread that matches it. A
/// match that needs more states stays linear, and takes longer.
pub(super) const MAX_STATES_BYTES: usize = 64 << 10;

/// The longest text of the schema or the value in an error, in bytes. About a line and a half of a
/// terminal; both are untrusted.
pub(super) const MAX_SHOWN: usize = 120;
