//! The choice of a request about calls that need an approval.

/// Treatment of a model's calls that need an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalChoice {
    /// They are returned to the caller.
    #[default]
    Return,
    /// Tools that need an approval are not offered.
    Omit,
    /// The request stays open until a person decides.
    Wait,
}

impl ApprovalChoice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Return, Self::Omit, Self::Wait];

    /// Returns the name in headers and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Return => "return",
            Self::Omit => "omit",
            Self::Wait => "wait",
        }
    }
}
