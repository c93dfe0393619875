//! Reads untrusted requests: their members, one by one, and errors that name them.

mod error;
mod members;
mod path;
mod site;

pub(crate) use self::error::Result;
pub use self::{
    error::{Untranslatable, excerpt},
    members::Members,
    path::Path,
    site::ItemSite,
};
