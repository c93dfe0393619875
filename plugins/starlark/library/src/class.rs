//! Types as values, by their names. `types` gives them their behaviour.

use std::fmt;

use allocative::Allocative;
use starlark::starlark_simple_value;
use starlark::values::{NoSerialize, ProvidesStaticType, StarlarkPagablePanic};

/// A type of Python.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
}
starlark_simple_value!(Type);

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = match self.name {
            "date" | "datetime" | "timedelta" | "timezone" => "datetime.",
            "Counter" | "defaultdict" | "OrderedDict" | "deque" => "collections.",
            _ => "",
        };
        write!(f, "<class '{module}{}'>", self.name)
    }
}
