//! Subscriptions of one MCP client to changes of resources.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

use super::{
    offers::{OfferList, OfferTarget, Offering},
    resources::{self, MAX_NAME_BYTES},
};
use airlock_core::{
    door::{Mailbox, RelayError, RelayRequest, Subscription},
    tool::ClientName,
};
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

/// Shortest time between two notifications of changed resources to one client. A server may report ten
/// thousand changes a second, for as long as it likes, and each of them would be sent to all subscribers. Of the changes
/// of one resource that wait, one is sent.
const PACE: Duration = Duration::from_millis(10);

/// Subscriptions of one client, by the URI that it knows the resource by. Dropping them ends them.
#[derive(Default)]
pub struct Subscriptions {
    mailbox: Arc<Mailbox>,
    held: Mutex<BTreeMap<String, HeldSubscription>>,
    /// Time from which the next change may be reported; `None` before the first one.
    paced: Mutex<Option<Instant>>,
}

/// A subscription, with the resource at its source.
struct HeldSubscription {
    client: ClientName,
    uri: String,
    _subscription: Subscription,
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

    /// Ends the subscriptions to resources that the client may not read any more.
    pub(crate) fn restrict(&self, offering: &Offering) {
        self.held().retain(|_, held| offering.view().may_read(&held.client, &held.uri));
    }

    fn add(&self, offering: &Offering, uri: &str, version: Version) -> Result<(), RpcError> {
        // The URI is compared with every template, kept for as long as the subscription, and sent to the server with those
        // of all clients, so its length is bounded.
        let found = if uri.len() <= MAX_NAME_BYTES { offering.resource(uri) } else { None };
        let target = found.ok_or_else(|| resources::not_found(uri, version))?;
        let mut held = self.held();
        if held.contains_key(uri) {
            return Ok(());
        }
        if held.len() >= MAX_SUBSCRIPTIONS {
            let message = format!("there are {MAX_SUBSCRIPTIONS} subscriptions, as many as may be");
            return Err(RpcError::new(code::REFUSED, message));
        }
        let request = RelayRequest::Subscribe { uri: target.uri.clone() };
        // It is not waited for the server, so there is no deadline.
        let admitted = offering.view().admit(&target.client, request, Duration::ZERO);
        let subscribed = admitted.and_then(|relay| relay.subscribe(&self.mailbox, uri));
        let subscription = subscribed.map_err(|error| match error {
            RelayError::NotFound | RelayError::Unsupported => resources::not_found(uri, version),
            error => resources::failed(method::RESOURCES_SUBSCRIBE, &target.client, &error),
        })?;
        let OfferTarget { client, uri: own, .. } = target;
        let kept = HeldSubscription { client, uri: own, _subscription: subscription };
        held.insert(uri.to_owned(), kept);
        Ok(())
    }

    /// Waits for a change of a resource, and returns its URI. Dropping the future loses none.
    pub async fn updated(&self) -> Arc<str> {
        loop {
            let paced = *self.paced.lock();
            if let Some(paced) = paced {
                sleep_until(paced).await;
            }
            let uri = self.mailbox.next().await;
            *self.paced.lock() = Some(Instant::now() + PACE);
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

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, HeldSubscription>> {
        self.held.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::{tests::client, toolbox::ToolboxScope};
    use airlock_catalog::{Catalog, SourceKind};
    use airlock_core::{
        door::{Admitted, Filter, McpServer, Provider, Relay},
        tool::{CallError, Offer, Offers, Policy, ToolOutput, UriList},
    };

    /// A server that takes every subscription.
    struct Taking;

    impl Provider for Taking {
        fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async { Err(CallError::cancelled()) })
        }

        fn server(&self) -> Option<&dyn McpServer> {
            Some(self)
        }
    }

    impl McpServer for Taking {
        fn relay(&self, _: Relay) -> BoxFuture<'_, Result<String, RelayError>> {
            Box::pin(async { Err(RelayError::Unsupported) })
        }

        fn subscribe(
            &self,
            _: Relay,
            _: &Arc<Mailbox>,
            _: &str,
        ) -> Result<Subscription, RelayError> {
            Ok(Subscription::new(()))
        }

        fn forget(&self, _: &str) {}
    }

    /// Returns what a client sees of a server with a template for any name.
    fn offering() -> Offering {
        offering_of(UriList::All)
    }

    /// As [`offering`], with the resources that the operator permits.
    fn offering_of(resources: UriList) -> Offering {
        let catalog = Catalog::new();
        let policy = Policy { resources, ..Policy::default() };
        catalog.add_client(&client("a"), SourceKind::Server("stdio"), policy);
        catalog.blocking_publish(&client("a"), Vec::new(), Arc::new(Taking));
        let templates = vec![Offer::new("memo://{id}", r#"{"uriTemplate":"memo://{id}"}"#)];
        catalog.publish_offers(&client("a"), Offers { templates, ..Offers::default() });
        let view = catalog.snapshot().relay_view(&Filter::none(), None);
        Offering::new(view, ToolboxScope::All)
    }

    #[test]
    fn a_uri_that_is_longer_than_any_of_a_request_is_not_subscribed_to() {
        let longest = format!("memo://{}", "x".repeat(MAX_NAME_BYTES - "memo://".len()));
        let wanted = format!(r#"["memo://1","{longest}","{longest}x"]"#);
        let subscriptions = Subscriptions::default();
        let accepted = subscriptions.listen(&offering(), Some(&wanted), Version::V2026_07_28);
        assert_eq!(accepted, Ok(vec!["memo://1".to_owned(), longest]));
    }

    #[test]
    fn only_subscriptions_to_what_a_client_may_read_now_are_kept() {
        let subscriptions = Subscriptions::default();
        let wanted = Some(r#"["memo://1","airlock://a/memo://2"]"#);
        subscriptions.listen(&offering(), wanted, Version::V2026_07_28).expect("accepted");
        for (permitted, kept) in [("memo://2", vec!["airlock://a/memo://2"]), ("none://", vec![])] {
            let resources = UriList::parse(&[permitted]).expect("a good list");
            subscriptions.restrict(&offering_of(resources));
            assert_eq!(subscriptions.held().keys().collect::<Vec<_>>(), kept, "{permitted}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_reach_a_client_at_a_pace_however_many_a_server_reports() {
        let subscriptions = Subscriptions::default();
        let wanted = Some(r#"["memo://1"]"#);
        subscriptions.listen(&offering(), wanted, Version::V2026_07_28).expect("accepted");
        let uri: Arc<str> = "memo://1".into();
        let began = Instant::now();
        for _ in 0..3 {
            subscriptions.mailbox.put(&uri);
            subscriptions.mailbox.put(&uri);
            assert_eq!(subscriptions.updated().await, uri);
        }
        assert!((2 * PACE..3 * PACE).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}
