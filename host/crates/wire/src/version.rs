//! Revisions of the protocol.

airlock_strings::named_enum! {
    /// A revision of MCP that the gateway speaks, the oldest first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Version as as_str {
        /// `2024-11-05`
        V2024_11_05 = "2024-11-05",
        /// `2025-03-26`
        V2025_03_26 = "2025-03-26",
        /// `2025-06-18`
        V2025_06_18 = "2025-06-18",
        /// `2025-11-25`
        V2025_11_25 = "2025-11-25",
        /// `2026-07-28`
        V2026_07_28 = "2026-07-28",
    }
}

impl Version {
    /// The revisions that a request may name in its `_meta`. The others have `initialize`.
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];
    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;
    /// The newest revision with `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The revision of a request over HTTP that names none (2025-06-18, section "Protocol Version
    /// Header").
    pub const UNNAMED: Self = Self::V2025_03_26;

    /// Finds a revision by its name; `None` if the gateway does not speak it.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == name)
    }

    /// Returns the revision for the response to `initialize`: the requested one if it has that
    /// request, else the newest one that has.
    pub fn negotiate(requested: &str) -> Self {
        Self::find(requested).filter(|version| !version.is_modern()).unwrap_or(Self::LATEST_LEGACY)
    }

    /// Returns whether requests are complete in themselves, without sessions.
    pub fn is_modern(self) -> bool {
        self >= Self::V2026_07_28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_is_answered_with_the_requested_revision_or_the_newest_that_has_sessions() {
        for (requested, expected) in [
            ("2025-06-18", Version::V2025_06_18),
            ("2024-11-05", Version::V2024_11_05),
            ("2026-07-28", Version::V2025_11_25),
            ("2099-01-01", Version::V2025_11_25),
            ("", Version::V2025_11_25),
        ] {
            assert_eq!(Version::negotiate(requested), expected, "{requested}");
        }
        assert!(
            Version::ALL.iter().all(|version| Version::find(version.as_str()) == Some(*version))
        );
        assert!(Version::ALL.is_sorted());
    }
}
