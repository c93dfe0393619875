//! Version 0.1 of the contract: `wit/` as types. Code that another version would share is
//! elsewhere.

#[macro_use]
mod same_variants;

mod bindings;
mod convert;
mod executor;
#[cfg(feature = "plugins")]
mod exported;
#[cfg(feature = "plugins")]
mod guard;
mod link;
#[cfg(feature = "plugins")]
pub(crate) mod plugin;

#[cfg(feature = "plugins")]
pub(crate) use self::guard::{GuardGuest, open_guard};
pub(crate) use self::{
    executor::{ScriptGuest, open_executor},
    link::link_executor,
};
