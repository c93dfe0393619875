//! Guards: components of the operator that decide about tools, and about the arguments and the results of calls.
//!
//! [`Guards`] are the guards of a gateway in the order of its configuration. The [`door`](airlock_core::door) asks
//! them about calls, and the catalog asks a [`DefinitionReview`] about definitions; the [`sandbox`](airlock_sandbox)
//! runs them. This crate selects the guards that are asked about a call, applies their verdicts, and refuses the call
//! if a guard returns no valid verdict. It does not know where calls come from.

mod guards;
mod load;
mod metrics;
mod outcome;
mod scope;
mod settings;

pub use self::{
    guards::{DefinitionReview, Guards},
    load::{GuardLoadError, check, faulty_key},
    scope::Scope,
    settings::{Hooks, Settings},
};
pub use airlock_core::tool::{BadPattern, ToolPattern};
