//! `plugins`.

use super::{
    name::{MAX_NAME_BYTES, is_plain},
    resolved::Resolved,
};
use airlock_config_file::file;
use airlock_plugin::{PublisherKey, Publishers};

/// Resolves the publishers. A required signature needs one of them.
pub(super) fn resolve(plugins: file::Plugins) -> Resolved<Publishers> {
    let file::Plugins { publishers, require_signature } = plugins;
    Resolved::new(|problems| {
        if require_signature && publishers.is_empty() {
            problems.refuse(
                "require_signature",
                "requires `publishers`: without one, no plugin could be loaded",
            );
        }
        let keys = Resolved::members(publishers, |problems, name, key| {
            if !is_plain(name, MAX_NAME_BYTES, "._-") {
                problems.refuse_whole(format_args!(
                    "expected a name of 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` or `-`"
                ));
            }
            problems.accept_whole(PublisherKey::parse(&key))
        });
        Publishers::new(problems.take("publishers", keys), require_signature)
    })
}
