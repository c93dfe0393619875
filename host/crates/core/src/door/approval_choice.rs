//! The choice of a request about calls that need an approval.

airlock_strings::named_enum! {
    /// Treatment of a model's calls that need an approval. The names are those in headers and in the configuration.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum ApprovalChoice {
        /// They are returned to the caller.
        #[default]
        Return = "return",
        /// Tools that need an approval are not offered.
        Omit = "omit",
        /// The request stays open until a person decides.
        Wait = "wait",
    }
}
