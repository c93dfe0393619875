//! The tools of a script, as runs store them.

use std::sync::{Arc, LazyLock};

type Make = Box<dyn FnOnce() -> SerializedTools + Send>;

struct SerializedTools {
    text: String,
    digest: [u8; 32],
}

/// Tools of a script: JSON, and its digest. Cheap to clone. Both are made when the first run with these
/// tools is stored, on a thread of the store: the tools of a large catalog are a long text.
#[derive(Clone)]
pub struct ScriptTools(Arc<LazyLock<SerializedTools, Make>>);

impl ScriptTools {
    /// Creates tools whose text and digest are made when they are needed, once for all clones.
    pub fn new(make: impl FnOnce() -> (String, [u8; 32]) + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(move || {
            let (text, digest) = make();
            SerializedTools { text, digest }
        }))))
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Its digest.
    pub fn digest(&self) -> &[u8; 32] {
        &self.0.digest
    }
}

impl PartialEq for ScriptTools {
    /// Returns whether they were made together. Others may have the same text, which is not made for
    /// the comparison.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ScriptTools {}

airlock_strings::debug_fields!(ScriptTools {});
