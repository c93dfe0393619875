//! Subjects of changes, which `PostgreSQL` keeps apart by locks.
//!
//! `SQLite` makes one change at a time. `PostgreSQL` makes many at once, so a change first takes the
//! advisory lock of its subject, and then reads what all earlier changes of the subject have written:
//! in `READ COMMITTED`, each statement sees what was committed before it began. Changes of different
//! subjects run in parallel. A change that also affects other subjects, for example to make room,
//! takes them with [`Sql::try_lock`](super::Sql::try_lock) and leaves out those that another change
//! has.

/// A subject, as the two numbers of its lock. Two subjects with the same numbers wait for each other
/// needlessly, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub(super) class: i32,
    pub(super) hash: i32,
}

impl Subject {
    /// The schema.
    pub const SCHEMA: Self = Self { class: class(0), hash: 0 };
    /// All calls that wait for a decision: an operator decides about those of every owner.
    pub const APPROVALS: Self = Self { class: class(1), hash: 0 };
    /// All operators and setting entries, and the record of their changes.
    pub const SETTINGS: Self = Self { class: class(10), hash: 0 };
    /// All running gateways.
    pub const REPLICAS: Self = Self { class: class(11), hash: 0 };
    /// All links by which users log in.
    pub const LOGIN_LINKS: Self = Self { class: class(13), hash: 0 };
    /// All sessions of operators, and the logins that they begin with.
    pub const OPERATOR_SESSIONS: Self = Self { class: class(12), hash: 0 };
    /// The removal of old rows of the call log: one gateway at a time does it.
    pub const CALL_LOG_SWEEP: Self = Self { class: class(17), hash: 0 };

    /// Returns the rows of the call log that one gateway writes.
    pub fn call_log(writer: &str) -> Self {
        Self::new(15, &[writer.as_bytes()])
    }

    /// Returns the store of a plugin.
    pub fn kv(plugin: &str, name: &str, holder: Option<&[u8]>) -> Self {
        let holder = holder.unwrap_or(b"none");
        Self::new(2, &[plugin.as_bytes(), name.as_bytes(), holder])
    }

    /// Returns the responses of an owner.
    pub fn responses(scope: &[u8]) -> Self {
        Self::new(3, &[scope])
    }

    /// Returns the recalled records of an owner.
    pub fn recall(scope: &[u8]) -> Self {
        Self::new(4, &[scope])
    }

    /// Returns the runs of an owner.
    pub fn runs(scope: &[u8]) -> Self {
        Self::new(5, &[scope])
    }

    /// Returns the tools of scripts that have this digest. Runs that begin share them.
    pub fn tools(digest: &[u8]) -> Self {
        Self::new(6, &[digest])
    }

    /// Returns the logins of a client, those of its users included.
    pub fn login(client: &str) -> Self {
        Self::new(7, &[client.as_bytes()])
    }

    /// Returns the pins of a client.
    pub fn pins(client: &str) -> Self {
        Self::new(8, &[client.as_bytes()])
    }

    /// Returns the revision of a kind of data that is not in the store.
    pub fn revision(kind: &str) -> Self {
        Self::new(9, &[kind.as_bytes()])
    }

    /// Returns the count of a limit.
    pub fn limit(id: &str) -> Self {
        Self::new(16, &[id.as_bytes()])
    }

    /// Returns whether its changes are rare, and decide what may happen from then on: a used approval, a revoked key,
    /// a renewed token. Those of a file then survive a power failure too.
    pub(crate) fn is_decisive(self) -> bool {
        // Approvals, logins, pins, settings, sessions of operators, links of logins.
        [1, 7, 8, 10, 12, 13].map(class).contains(&self.class)
    }

    fn new(number: u8, parts: &[&[u8]]) -> Self {
        Self { class: class(number), hash: hash(parts) }
    }
}

/// Returns a class of locks. Other programs in the same database have others.
const fn class(number: u8) -> i32 {
    i32::from_be_bytes([b'A', b'I', b'R', number])
}

/// Hashes parts by FNV-1a. All replicas and versions must have the same hash, which the standard
/// library does not promise.
fn hash(parts: &[&[u8]]) -> i32 {
    let mut hash = 0x811c_9dc5_u32;
    for part in parts {
        let length = (part.len() as u64).to_be_bytes();
        for byte in length.iter().chain(*part) {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn subjects_have_the_same_numbers_in_every_process_and_differ_by_kind_and_by_part() {
        let store = Subject::kv("a", "bc", None);
        assert_eq!(store, Subject { class: 0x4149_5202, hash: -868_099_298 });
        let others = [
            Subject::kv("ab", "c", None),
            Subject::kv("a", "bc", Some(b"")),
            Subject::responses(b"a"),
            Subject::recall(b"a"),
        ];
        for other in others {
            assert_ne!(store, other);
        }
    }

    #[test]
    fn decisions_are_decisive_and_what_calls_change_is_not() {
        let decisive = [
            Subject::APPROVALS,
            Subject::SETTINGS,
            Subject::OPERATOR_SESSIONS,
            Subject::LOGIN_LINKS,
            Subject::login("c"),
            Subject::pins("c"),
        ];
        assert!(decisive.into_iter().all(Subject::is_decisive));
        let others = [
            Subject::REPLICAS,
            Subject::kv("p", "s", None),
            Subject::responses(b"a"),
            Subject::recall(b"a"),
            Subject::runs(b"a"),
            Subject::limit("l"),
            Subject::call_log("w"),
        ];
        assert!(!others.into_iter().any(Subject::is_decisive));
    }

    #[test]
    fn no_two_kinds_of_subjects_have_the_same_class() {
        let kinds = [
            Subject::SCHEMA,
            Subject::APPROVALS,
            Subject::SETTINGS,
            Subject::REPLICAS,
            Subject::LOGIN_LINKS,
            Subject::OPERATOR_SESSIONS,
            Subject::kv("", "", None),
            Subject::responses(b""),
            Subject::recall(b""),
            Subject::runs(b""),
            Subject::tools(b""),
            Subject::login(""),
            Subject::pins(""),
            Subject::revision(""),
            Subject::limit(""),
            Subject::CALL_LOG_SWEEP,
            Subject::call_log(""),
        ];
        let classes: BTreeSet<_> = kinds.iter().map(|subject| subject.class).collect();
        assert_eq!(classes.len(), kinds.len());
    }
}
