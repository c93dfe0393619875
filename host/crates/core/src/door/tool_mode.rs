//! The way in which a request offers the tools of clients in code mode to its model.

/// Header that selects the way for one request.
pub const TOOL_MODE: &str = "x-airlock-mode";

/// Way in which the tools of clients in code mode are offered. Those of other clients are always offered one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolMode {
    /// One by one, like those of other clients.
    Direct,
    /// To scripts, with the search.
    Search,
    /// To scripts, without the search.
    Code,
    /// As one of these, by the estimated tokens of the definitions and the number of tools.
    Auto,
}

impl ToolMode {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Search, Self::Code, Self::Auto];

    /// Returns the name in headers, in requests and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Search => "search",
            Self::Code => "code",
            Self::Auto => "auto",
        }
    }

    /// Finds a way by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
