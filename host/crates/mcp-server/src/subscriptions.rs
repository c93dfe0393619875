//! Subscriptions of one MCP client to changes of resources.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::{
    offers::{OfferList, Offering},
    resources,
};
use airlock_core::door::{Mailbox, RelayError, RelayRequest, Subscription};
use airlock_json::raw;
use airlock_wire::{
    error::{RpcError, code},
    message::Request,
    method,
    version::Version,
};

/// Maximum subscriptions of one session, or of one stream of the modern era. The client names
/// them one by one, and a view of all open documents has fewer.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 64;

/// Subscriptions of one client, by the URI that it knows the resource by. Dropping them ends them.
#[derive(Default)]
pub struct Subscriptions {
    mailbox: Arc<Mailbox>,
    held: Mutex<BTreeMap<String, Subscription>>,
}

impl Subscriptions {
    /// Handles `resources/subscribe`.
    pub(crate) fn subscribe(
        &self,
        offering: &Offering,
        request: &Request,
        version: Version,
    ) -> Result<(), RpcError> {
        let (uri, _) = resources::target(offering, request, version)?;
        self.add(offering, &uri, version)
    }

    /// Handles `resources/unsubscribe`. A subscription that does not exist is no error.
    pub(crate) fn unsubscribe(
        &self,
        offering: &Offering,
        request: &Request,
    ) -> Result<(), RpcError> {
        if !offering.has(OfferList::Resources) {
            return Err(RpcError::method_not_found(&request.method));
        }
        let uri = request.params.string("uri");
        let uri = uri.ok_or_else(|| RpcError::invalid_params("`uri` must be a string: a URI"))?;
        self.held().remove(&*uri);
        Ok(())
    }

    /// Reads `resourceSubscriptions` of `subscriptions/listen` and subscribes to those that exist.
    /// Returns their URIs. Fails if it is no list of strings, or has too many.
    pub(crate) fn listen(
        &self,
        offering: &Offering,
        wanted: Option<&str>,
        version: Version,
    ) -> Result<Vec<String>, RpcError> {
        let Some(wanted) = wanted.filter(|wanted| *wanted != "null") else {
            return Ok(Vec::new());
        };
        let uris: Option<Vec<_>> = raw::elements(wanted)
            .and_then(|all| all.take(MAX_SUBSCRIPTIONS + 1).map(raw::string).collect());
        let uris = uris.filter(|uris| uris.len() <= MAX_SUBSCRIPTIONS).ok_or_else(|| {
            RpcError::invalid_params(format!(
                "`resourceSubscriptions` must be a list of at most {MAX_SUBSCRIPTIONS} strings"
            ))
        })?;
        let mut accepted = Vec::new();
        for uri in uris {
            match self.add(offering, &uri, version) {
                Ok(()) => accepted.push(uri.into_owned()),
                Err(error) if error.code == code::REFUSED => return Err(error),
                // Left out of the acknowledgment, which says so.
                Err(_) => {}
            }
        }
        Ok(accepted)
    }

    fn add(&self, offering: &Offering, uri: &str, version: Version) -> Result<(), RpcError> {
        let target = offering.resource(uri).ok_or_else(|| resources::not_found(uri, version))?;
        let mut held = self.held();
        if held.contains_key(uri) {
            return Ok(());
        }
        if held.len() >= MAX_SUBSCRIPTIONS {
            let message = format!("there are {MAX_SUBSCRIPTIONS} subscriptions, as many as may be");
            return Err(RpcError::new(code::REFUSED, message));
        }
        let request = RelayRequest::Subscribe { uri: target.uri };
        // It is not waited for the server, so there is no deadline.
        let admitted = offering.view().admit(&target.client, request, std::time::Duration::ZERO);
        let subscribed = admitted.and_then(|relay| relay.subscribe(&self.mailbox, uri));
        let subscription = subscribed.map_err(|error| match error {
            RelayError::NotFound | RelayError::Unsupported => resources::not_found(uri, version),
            error => resources::failed(method::RESOURCES_SUBSCRIBE, &target.client, &error),
        })?;
        held.insert(uri.to_owned(), subscription);
        Ok(())
    }

    /// Waits for a change of a resource, and returns its URI. Dropping the future loses none.
    pub async fn updated(&self) -> Arc<str> {
        loop {
            let uri = self.mailbox.next().await;
            // It may have been ended since.
            if self.held().contains_key(&*uri) {
                return uri;
            }
        }
    }

    /// Ends all subscriptions.
    pub(crate) fn clear(&self) {
        self.held().clear();
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Subscription>> {
        self.held.lock()
    }
}
