//! Azure OpenAI.
//!
//! The v1 API has OpenAI's own paths, and the deployment is the `model` of the body. A dated version of
//! the API is in the query, and the deployment of a chat completion is in the path; the Responses API
//! has it in the body there too.

use std::sync::Arc;

use http::Uri;
use url::Url;

use super::{
    addresses::{Addresses, Operation},
    segment::segment,
    vendor::{VendorPaths, extended},
};
use crate::http::below;
use airlock_conversation::read::Untranslatable;

/// Addresses of a dated version of the API.
#[derive(Debug)]
struct DatedVersion {
    /// URL of `/openai`.
    base: Url,
    version: String,
}

/// Returns the addresses below the endpoint of a resource.
pub(super) fn addresses(endpoint: &Url, version: Option<&str>) -> Arc<dyn Addresses> {
    match version {
        None => Arc::new(VendorPaths::new(extended(endpoint, "openai/v1"))),
        Some(version) => {
            let base = extended(endpoint, "openai");
            Arc::new(DatedVersion { base, version: version.to_owned() })
        }
    }
}

impl Addresses for DatedVersion {
    fn below(&self, path: &str) -> Uri {
        below(&self.base, &format!("{path}?api-version={}", self.version))
    }

    fn uri(&self, operation: Operation, model: &str, _: bool) -> Result<Uri, Untranslatable> {
        let path = operation.path();
        Ok(match operation {
            Operation::ChatCompletions => {
                self.below(&format!("deployments/{}/{path}", segment(model)?))
            }
            _ => self.below(path),
        })
    }
}
