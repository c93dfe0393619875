//! A mark by which the processes of a child are found again.

use std::{fmt, sync::OnceLock};

use uuid::Uuid;

use crate::platform;

/// Environment variable of every child. Processes that the child starts inherit it, unless they
/// clear their environment.
pub const VARIABLE: &str = "AIRLOCK_UPSTREAM";

/// Identity of a gateway process, unique among all processes that have run on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gateway {
    /// Namespace in which `pid` counts.
    pub(crate) namespace: u64,
    pub(crate) pid: u32,
    /// Start time in the unit of the system, which tells it from later processes with its number.
    pub(crate) started: u64,
}

impl Gateway {
    /// Returns the identity of this process.
    pub(crate) fn current() -> &'static Self {
        static CURRENT: OnceLock<Gateway> = OnceLock::new();
        CURRENT.get_or_init(|| {
            let pid = std::process::id();
            Self {
                namespace: platform::pid_namespace(),
                pid,
                started: platform::start_time(pid).unwrap_or_default(),
            }
        })
    }

    /// Returns whether this is the identity of a gateway that has ended. Returns false for one in
    /// another namespace, whose processes this one cannot see.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are no strays to find"))]
    pub(crate) fn has_ended(&self) -> bool {
        self.namespace == Self::current().namespace
            && platform::start_time(self.pid) != Some(self.started)
    }
}

/// Mark of one child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) gateway: Gateway,
    child: Uuid,
}

impl Tag {
    /// Creates the mark of a new child of this process.
    pub(crate) fn new() -> Self {
        Self { gateway: Gateway::current().clone(), child: Uuid::new_v4() }
    }

    /// Parses the text of a mark; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let namespace = parts.next()?.parse().ok()?;
        let pid = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        let child = Uuid::try_parse(parts.next()?).ok()?;
        let gateway = Gateway { namespace, pid, started };
        parts.next().is_none().then_some(Self { gateway, child })
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gateway { namespace, pid, started } = &self.gateway;
        write!(f, "{namespace}-{pid}-{started}-{}", self.child.simple())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_parsed_as_it_is_written() {
        let tag = Tag::new();
        assert_eq!(Tag::parse(&tag.to_string()), Some(tag.clone()));
        for bad in ["", "1-2-3", "1-2-3-4", "x-2-3-00000000000000000000000000000000"] {
            assert_eq!(Tag::parse(bad), None, "{bad}");
        }
        assert_eq!(Tag::parse(&format!("{tag}-1")), None);
    }

    #[test]
    fn only_a_gateway_of_this_namespace_is_known_to_have_ended() {
        let current = Gateway::current().clone();
        assert!(!current.has_ended());
        let earlier = Gateway { started: current.started + 1, ..current };
        assert!(earlier.has_ended());
        let foreign = Gateway { namespace: earlier.namespace + 1, ..earlier };
        assert!(!foreign.has_ended());
    }
}
