//! The way in which a request offers the tools of clients in code mode to its model.

/// Header that selects the way for one request.
pub const TOOL_MODE: &str = "x-airlock-mode";

airlock_strings::named_enum! {
    /// Way in which the tools of clients in code mode are offered. Those of other clients are always offered one by one.
    /// The names are those in headers, in requests and in the configuration.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ToolMode {
        /// One by one, like those of other clients.
        Direct = "direct",
        /// To scripts, with the search.
        Search = "search",
        /// To scripts, without the search.
        Code = "code",
        /// As one of these, by the estimated tokens of the definitions and the number of tools.
        Auto = "auto",
    }
}

impl ToolMode {
    /// Finds a way by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
