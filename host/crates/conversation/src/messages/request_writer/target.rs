//! The Messages API in errors.

use crate::{
    read::{Path, Untranslatable},
    target::Target,
};

/// The API, in errors.
pub(super) const TARGET: Target = Target { api: "Anthropic's Messages API", owner: "Anthropic's" };

/// Returns the error of a member that breaks a rule. `rule` is a sentence.
pub(super) fn invalid(name: &str, rule: &str) -> Untranslatable {
    Untranslatable::invalid(&Path::Root.member(name), rule)
}
