//! `subscriptions/listen` of the modern era: one stream of notifications.

use serde_json::{Value, json};

use super::{
    offers::OfferList,
    result::{SERVER_INFO, server_info},
    service::{Incoming, STOPPING},
    subscriptions::Subscriptions,
    watch::{Known, ListKind, ListWatch},
};
use airlock_json::raw;
use airlock_wire::{error::RpcError, method};

/// Key of the metadata with the reason that a subscription ended.
const REASON: &str = "airlock/reason";
/// Key of the metadata that relates a notification to a subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Handles `subscriptions/listen`: acknowledges, then notifies of each change until the gateway
/// stops or the client ends the request.
pub(super) async fn run(
    Incoming { service, client, request, outlet }: Incoming,
) -> Result<String, RpcError> {
    let wanted = request
        .params
        .get("notifications")
        .filter(|wanted| wanted.starts_with('{'))
        .ok_or_else(|| RpcError::invalid_params("`notifications` must be an object"))?;
    let toolbox = service.toolboxes().open(&client.selection);
    let offering = toolbox.offering();
    let lists = [
        (ListKind::Tools, wants(wanted, "toolsListChanged")),
        (
            ListKind::Resources,
            wants(wanted, "resourcesListChanged") && offering.has(OfferList::Resources),
        ),
        (
            ListKind::Prompts,
            wants(wanted, "promptsListChanged") && offering.has(OfferList::Prompts),
        ),
    ];
    let lists = lists.map(|(kind, is_wanted)| is_wanted.then_some(kind));
    let subscriptions = Subscriptions::default();
    let uris = raw::member(wanted, "resourceSubscriptions");
    let uris = subscriptions.listen(offering, uris, client.peer.version)?;
    let id: Value = serde_json::from_str(request.id.as_json()).unwrap_or_default();
    let meta = json!({SUBSCRIPTION: id});
    let mut accepted = json!({});
    for kind in lists.iter().flatten() {
        accepted[kind.filter()] = true.into();
    }
    if !uris.is_empty() {
        accepted["resourceSubscriptions"] = json!(uris);
    }
    let wants_lists = lists.iter().any(Option::is_some);
    drop(toolbox);
    // Before the acknowledgment: a change after it is noticed.
    let mut watch = ListWatch::new(service.toolboxes(), client.selection, Known::default());
    outlet.notify(method::ACKNOWLEDGED, &json!({"notifications": accepted, "_meta": meta}));
    loop {
        tokio::select! {
            () = service.closing().cancelled() => break,
            changed = watch.changed(service.toolboxes()), if wants_lists => {
                for kind in changed.kinds().filter(|kind| lists.contains(&Some(*kind))) {
                    outlet.notify(kind.notification(), &json!({"_meta": meta}));
                }
            }
            uri = subscriptions.updated() => {
                outlet.notify(method::RESOURCE_UPDATED, &json!({"uri": *uri, "_meta": meta}));
            }
        }
    }
    let meta = json!({SUBSCRIPTION: id, SERVER_INFO: server_info(), REASON: STOPPING});
    Ok(json!({"resultType": "complete", "_meta": meta}).to_string())
}

/// Returns whether the filter of a subscription wants a kind of notification.
fn wants(filter: &str, kind: &str) -> bool {
    raw::member(filter, kind) == Some("true")
}
