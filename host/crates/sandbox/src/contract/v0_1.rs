//! Version 0.1 of the contract: `wit/` as types. Code that another version would share is
//! elsewhere.

mod bindings;
mod convert;
mod executor;
mod link;
#[cfg(feature = "plugins")]
pub(crate) mod plugin;

pub(crate) use self::{
    executor::{ScriptGuest, open_executor},
    link::link_executor,
};
