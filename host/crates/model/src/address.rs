//! Addresses of a service: the URI of each operation of an API at the host of the service.
//!
//! An API knows its requests and responses, and nothing of where it is hosted; an address knows nothing
//! of the API but its operations. A host has a file of its own, behind the cargo feature of its name.

mod addresses;
#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "bedrock")]
mod bedrock;
#[cfg(any(feature = "azure", feature = "bedrock", feature = "vertex"))]
mod segment;
mod vendor;
#[cfg(feature = "vertex")]
mod vertex;

use std::sync::Arc;

pub(super) use self::addresses::{Addresses, HostedMessages, Operation};
use self::vendor::VendorPaths;
use super::{
    BadProvider,
    hosting::has_api,
    http::base_url,
    settings::{Hosting, Service},
};

/// Returns the addresses of a service. Fails if its base URL cannot be used, or if its host does not
/// have its API or is not part of this build.
pub(super) fn addresses(
    provider: &str,
    service: &Service,
) -> Result<Arc<dyn Addresses>, BadProvider> {
    let base = base_url(provider, &service.base_url)?;
    if !has_api(&service.hosting, service.api) {
        return Err(BadProvider::Hosting { provider: provider.to_owned() });
    }
    match &service.hosting {
        Hosting::Vendor => Ok(Arc::new(VendorPaths::new(base))),
        #[cfg(feature = "azure")]
        Hosting::Azure { api_version } => Ok(azure::addresses(&base, api_version.as_deref())),
        #[cfg(not(feature = "azure"))]
        Hosting::Azure { .. } => Err(without(provider, "azure")),
        #[cfg(feature = "bedrock")]
        Hosting::Bedrock { .. } => Ok(Arc::new(bedrock::RegionPaths::new(base))),
        #[cfg(not(feature = "bedrock"))]
        Hosting::Bedrock { .. } => Err(without(provider, "bedrock")),
        #[cfg(feature = "vertex")]
        Hosting::Vertex { project, location } => {
            Ok(vertex::addresses(&base, project, location, service.api))
        }
        #[cfg(not(feature = "vertex"))]
        Hosting::Vertex { .. } => Err(without(provider, "vertex")),
    }
}

/// Returns the error of a host that is not part of this build.
#[cfg(not(all(feature = "azure", feature = "bedrock", feature = "vertex")))]
fn without(provider: &str, feature: &'static str) -> BadProvider {
    BadProvider::Feature { provider: provider.to_owned(), feature }
}

#[cfg(all(test, feature = "azure", feature = "bedrock", feature = "vertex"))]
mod tests;
