//! The gateways that share one store, and the handles of what only one of them has.
//!
//! Sessions of MCP clients, tasks, requests that wait for answers and kept results are in the memory
//! of one process. Their handles name it, so that another gateway knows where a request belongs.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    str::FromStr,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use uuid::{Builder, Uuid};

/// Version of the UUIDs of handles: RFC 9562 leaves the bits of version 8 to its user.
const VERSION: usize = 8;

/// Identifier of one gateway process: 48 random bits, written as 12 hexadecimal digits. It is no
/// secret: it selects a gateway, and authorizes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId([u8; 6]);

/// Error: a text is no identifier of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 12 hexadecimal digits")]
pub struct BadReplicaId;

impl ReplicaId {
    /// Returns the identifier of this process.
    pub fn current() -> Self {
        static CURRENT: OnceLock<ReplicaId> = OnceLock::new();
        *CURRENT.get_or_init(|| Self::first_bytes(Uuid::new_v4()))
    }

    /// Returns the process that made a handle; `None` for a UUID that is none.
    pub fn from_handle(handle: Uuid) -> Option<Self> {
        (handle.get_version_num() == VERSION).then(|| Self::first_bytes(handle))
    }

    /// Returns the process that made a handle, which may have a prefix that ends with `_` or `.`;
    /// `None` if the text has no handle.
    pub fn of_text(text: &str) -> Option<Self> {
        let handle = text.rsplit(['_', '.']).next()?;
        Uuid::try_parse(handle).ok().and_then(Self::from_handle)
    }

    fn first_bytes(handle: Uuid) -> Self {
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&handle.as_bytes()[..6]);
        Self(bytes)
    }

    /// Returns a new handle of something that only this process has. 74 of its bits are random, from
    /// the system: it cannot be guessed.
    pub fn handle() -> Uuid {
        Self::own(Uuid::new_v4().into_bytes())
    }

    /// Returns a new handle that authorizes nothing, such as the identifier of a request, without a system call. It is
    /// a keyed hash of a number, so it does not tell how many there are.
    pub fn public_handle() -> Uuid {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let halves = [false, true].map(|half| KEY.hash_one((number, half)));
        let [first, second] = halves.map(u128::from);
        Self::own(((first << 64) | second).to_be_bytes())
    }

    /// Returns the handle of this process with these bytes in its other places.
    fn own(mut bytes: [u8; 16]) -> Uuid {
        bytes[..6].copy_from_slice(&Self::current().0);
        Builder::from_custom_bytes(bytes).into_uuid()
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ReplicaId {
    type Err = BadReplicaId;

    fn from_str(text: &str) -> Result<Self, BadReplicaId> {
        let is_hex = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hex).ok_or(BadReplicaId)?;
        let [_, _, bytes @ ..] = number.to_be_bytes();
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_handle_names_the_process_that_made_it_in_each_of_its_forms() {
        let own = ReplicaId::current();
        let handle = ReplicaId::handle();
        assert_eq!(ReplicaId::from_handle(handle), Some(own));
        assert_eq!(ReplicaId::from_handle(ReplicaId::public_handle()), Some(own));
        for text in [
            handle.to_string(),
            handle.simple().to_string(),
            format!("content_{}", handle.simple()),
            format!("question.{handle}"),
        ] {
            assert_eq!(ReplicaId::of_text(&text), Some(own), "{text}");
        }
        assert_eq!(own.to_string().parse(), Ok(own));
    }

    #[test]
    fn other_texts_are_no_handles() {
        assert_eq!(ReplicaId::from_handle(Uuid::new_v4()), None);
        let handle = ReplicaId::handle().simple().to_string();
        for text in ["", "run_7.2", "question.", &handle[1..], &format!("{handle}_"), "ä"] {
            assert_eq!(ReplicaId::of_text(text), None, "{text}");
        }
        for text in ["", "00112233445", "0011223344556", "+01122334455", "00112233445g", "ää"] {
            assert_eq!(text.parse::<ReplicaId>(), Err(BadReplicaId), "{text}");
        }
        assert_eq!(
            "0a1B2c3d4e5f".parse().map(|id: ReplicaId| id.to_string()),
            Ok("0a1b2c3d4e5f".into())
        );
    }

    #[test]
    fn handles_differ() {
        for make in [ReplicaId::handle, ReplicaId::public_handle] {
            let handles: BTreeSet<_> = (0..1_000).map(|_| make()).collect();
            assert_eq!(handles.len(), 1_000);
        }
    }
}
