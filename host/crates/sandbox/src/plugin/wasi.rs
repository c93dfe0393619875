//! WASI for plugins. Every interface of 0.2 except HTTP is linked here, so that the output of
//! ordinary toolchains loads; everything that was not granted is denied: environment, command line
//! and standard input are empty, there are no files and no network, and time starts from a fixed
//! value. Random numbers need no grant: identical keys and identifiers in every call would be a trap
//! for authors. Only a guest that describes its tools draws fixed numbers, so that it always
//! describes the same.

mod blocking;
mod call;
mod clocks;
mod descriptors;
mod directory;
mod files;
mod identity;
mod link;
mod listing;
mod measure;
mod mount;
mod over_quota;
mod random;
mod scratch;
mod stdio;
mod streams;

pub(crate) use self::{
    call::{Mounts, Wasi},
    files::NoScratch,
    link::link,
};

#[cfg(test)]
mod tests;
