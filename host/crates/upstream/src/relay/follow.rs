//! Keeps the lists of resources and prompts, and the subscriptions, up to date over one connection.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info};

use super::{
    lists::{self, OfferKind},
    turns::SubscriptionQueue,
};
use crate::{
    limits::{
        LIST_CHANGE_DELAY, LIST_TTL, OFFERS_PATIENCE, QUICK_LIST_CHANGES, SUBSCRIBE_TIMEOUT,
        SUBSCRIPTION_OVERLAP, SUBSCRIPTION_PACE, SUBSCRIPTION_RETRY, UPDATE_PACE,
    },
    server::{Instance, Server},
    subscriptions::Hub,
};
use airlock_catalog::EntryWriter;
use airlock_core::tool::{Offer, Offers};
use airlock_json::raw;
use airlock_mcp_client::{
    AskError, Backoff, Capability, Link, Request, Restart, ServerEvent, Settings,
};
use airlock_wire::method;

/// Reads and publishes the lists before the server counts as connected, so that a client that is
/// then told of its tools finds its resources and prompts too. Lists that take longer than
/// [`OFFERS_PATIENCE`] are read again later, see [`follow_lists`].
pub(crate) async fn publish_lists(
    entry: &EntryWriter,
    settings: &Settings,
    server: &Server,
    link: &Link,
) {
    let publishing = publish(entry, settings, link);
    if timeout(OFFERS_PATIENCE, publishing).await.is_err() {
        server.relaying().lists_changed.notify_one();
    }
}

/// Reads the lists again whenever they have changed or their time to live has ended. Lists that
/// change constantly are read less and less often.
pub(crate) async fn follow_lists(
    entry: &EntryWriter,
    settings: &Settings,
    server: &Server,
    link: &Link,
) {
    let mut pace = Backoff::new(Restart::default(), QUICK_LIST_CHANGES);
    let mut read = Instant::now();
    let mut ttl = None;
    loop {
        let due = [settings.sync_interval, ttl].into_iter().flatten().min();
        // None is wanted until the operator permits some, which is reported as a change.
        let due = due.filter(|_| wants_any(entry, settings));
        tokio::select! {
            () = server.relaying().lists_changed.notified() => {
                sleep(pace.after(read.elapsed()).max(LIST_CHANGE_DELAY)).await;
            }
            () = after(due) => {}
        }
        ttl = publish(entry, settings, link)
            .await
            .map(|ttl| ttl.clamp(*LIST_TTL.start(), *LIST_TTL.end()));
        read = Instant::now();
    }
}

async fn after(delay: Option<Duration>) {
    match delay {
        Some(delay) => sleep(delay).await,
        None => std::future::pending().await,
    }
}

fn wants_any(entry: &EntryWriter, settings: &Settings) -> bool {
    entry
        .snapshot()
        .policy(&settings.name)
        .is_some_and(|policy| !policy.resources.is_empty() || !policy.prompts.is_empty())
}

/// Reads the lists that the operator permits to be used, and publishes them. A list that cannot be
/// read stays as it was. Returns the shortest time to live.
async fn publish(entry: &EntryWriter, settings: &Settings, link: &Link) -> Option<Duration> {
    let snapshot = entry.snapshot();
    let policy = snapshot.policy(&settings.name)?;
    let agreed = link.agreed()?;
    let last = snapshot.offers(&settings.name);
    let has_resources = !policy.resources.is_empty() && agreed.has(Capability::Resources);
    let has_prompts = !policy.prompts.is_empty() && agreed.has(Capability::Prompts);
    let (resources, first) =
        read(settings, link, OfferKind::RESOURCES, has_resources, &last.resources).await;
    let (templates, second) =
        read(settings, link, OfferKind::TEMPLATES, has_resources, &last.templates).await;
    let (prompts, third) =
        read(settings, link, OfferKind::PROMPTS, has_prompts, &last.prompts).await;
    let instructions = agreed.instructions.as_deref().filter(|_| policy.relays_instructions);
    let instructions = instructions.map(Arc::from);
    entry.publish_offers(Offers { resources, templates, prompts, instructions });
    [first, second, third].into_iter().flatten().min()
}

/// Reads a list, and its time to live. Returns the last one if it cannot be read, and an empty one if
/// it is not wanted.
async fn read(
    settings: &Settings,
    link: &Link,
    kind: OfferKind,
    is_wanted: bool,
    last: &[Offer],
) -> (Vec<Offer>, Option<Duration>) {
    if !is_wanted {
        return (Vec::new(), None);
    }
    match lists::read(link, kind).await {
        Ok(listed) => {
            let ttl = listed.ttl;
            (listed.into_items(&settings.name, kind), ttl)
        }
        Err(error) => {
            let client = &settings.name;
            info!(%client, ?kind, %error, "upstream list cannot be read; the last one is kept");
            (last.to_vec(), None)
        }
    }
}

/// Hands the notifications of an instance of a server on; those of changed resources at a pace, each resource
/// once. Those of an instance that is held out are dropped. Never returns.
pub(crate) async fn follow_events(
    server: &Server,
    instance: &Instance,
    mut events: mpsc::Receiver<ServerEvent>,
) {
    let relaying = server.relaying();
    // Bounded by the subscriptions.
    let mut changed = BTreeSet::<String>::new();
    let mut next_report = Instant::now();
    loop {
        let event = tokio::select! {
            biased;
            () = reached(next_report), if !changed.is_empty() => {
                for uri in std::mem::take(&mut changed) {
                    relaying.hub.updated(&uri);
                }
                next_report = Instant::now() + UPDATE_PACE;
                continue;
            }
            event = events.recv() => event,
        };
        let Some(ServerEvent { method, text }) = event else { break };
        if !instance.is_admitted() {
            continue;
        }
        match method.as_str() {
            method::PROMPTS_CHANGED | method::RESOURCES_CHANGED => {
                relaying.lists_changed.notify_one();
            }
            method::RESOURCE_UPDATED => {
                changed.extend(updated(&text).filter(|uri| relaying.hub.has(uri)));
            }
            _ => {}
        }
    }
    std::future::pending::<()>().await;
}

/// Waits until a time; not at all if it has come, also before the first tick of a timer.
async fn reached(time: Instant) {
    if Instant::now() < time {
        sleep_until(time).await;
    }
}

fn updated(text: &[u8]) -> Option<String> {
    let params = raw::member(std::str::from_utf8(text).ok()?, "params")?;
    raw::member(params, "uri").and_then(raw::string).map(Into::into)
}

/// Keeps the subscription of a connection to the list of tools at a modern server, and none to resources.
/// Never returns.
pub(crate) async fn follow_tools(link: &Link) {
    if link.is_modern() {
        listen(&Hub::default(), link, || link.inbox().suspect_change()).await;
    }
    std::future::pending::<()>().await;
}

/// Keeps the subscriptions of a connection: to lists at a modern server, and to the resources that
/// MCP clients have subscribed to. Never returns.
pub(crate) async fn subscribe(server: &Server, link: &Link) {
    if link.is_modern() {
        let relaying = server.relaying();
        listen(&relaying.hub, link, || {
            link.inbox().suspect_change();
            relaying.lists_changed.notify_one();
        })
        .await;
    } else if link.agreed().is_some_and(|agreed| agreed.has(Capability::ResourceSubscriptions)) {
        subscribe_one_by_one(&server.relaying().hub, link).await;
    }
    std::future::pending::<()>().await;
}

/// Keeps `subscriptions/listen` open at a modern server. It names all that is subscribed to, so it
/// is sent anew when that changes, at a pace. The request before stays open for a while, so that no
/// change is missed between the two. After a subscription that the server has ended, changes were
/// not reported: calls `lists_missed`, and reports all resources as changed. Returns if the server
/// refuses the request.
async fn listen(hub: &Hub, link: &Link, lists_missed: impl Fn()) {
    let mut before = None;
    loop {
        let Some(filter) = filter(link, &hub.uris()) else {
            before = None;
            hub.changed().await;
            continue;
        };
        let request = Request::new(method::LISTEN).with("notifications", filter.to_string());
        let mut open = Box::pin(link.ask(request).result());
        tokio::select! {
            answered = &mut open => {
                if let Err(AskError::Refused(error)) = answered {
                    debug!(%error, "upstream server refuses subscriptions");
                    return;
                }
                before = None;
                sleep(SUBSCRIPTION_RETRY).await;
                lists_missed();
                for uri in hub.uris() {
                    hub.updated(&uri);
                }
            }
            () = changed(hub, before.take()) => before = Some(open),
        }
    }
}

/// Waits until the subscriptions have changed and further changes had time to follow. Ends the
/// request `before` the present one when the server had time to register that.
async fn changed(hub: &Hub, before: Option<impl Future>) {
    if let Some(before) = before {
        let _ = timeout(SUBSCRIPTION_OVERLAP, before).await;
    }
    hub.changed().await;
    sleep(SUBSCRIPTION_PACE).await;
}

/// Returns the notifications to subscribe to; `None` if the server has none of them.
fn filter(link: &Link, uris: &BTreeSet<Arc<str>>) -> Option<Value> {
    let agreed = link.agreed()?;
    let mut filter = json!({});
    for (capability, name) in [
        (Capability::ToolChanges, "toolsListChanged"),
        (Capability::PromptChanges, "promptsListChanged"),
        (Capability::ResourceChanges, "resourcesListChanged"),
    ] {
        if agreed.has(capability) {
            filter[name] = true.into();
        }
    }
    if !uris.is_empty() && agreed.has(Capability::ResourceSubscriptions) {
        filter["resourceSubscriptions"] = uris.iter().map(|uri| json!(**uri)).collect();
    }
    (filter != json!({})).then_some(filter)
}

/// Sends `resources/subscribe` and `resources/unsubscribe` to a legacy server, in turns of the tenants: one
/// whose subscriptions the server does not answer delays none of others for longer than one of its requests.
async fn subscribe_one_by_one(hub: &Hub, link: &Link) {
    for uri in hub.uris() {
        // Changes while there was no connection were not reported.
        hub.updated(&uri);
    }
    let mut turns = SubscriptionQueue::default();
    let mut running = FuturesUnordered::new();
    turns.read(hub);
    let mut next_look = Instant::now();
    loop {
        while let Some(change) = turns.begin(hub) {
            running.push(async move {
                ask(link, change.method(), &change.uri).await;
                change
            });
        }
        tokio::select! {
            // None while no request is running.
            Some(change) = running.next() => turns.end(&change),
            () = changed_from(hub, next_look) => {
                turns.read(hub);
                next_look = Instant::now() + SUBSCRIPTION_PACE;
            }
        }
    }
}

/// Waits until the subscriptions have changed, at least until `next_look`: many changes at once cost one look at
/// all of them.
async fn changed_from(hub: &Hub, next_look: Instant) {
    sleep_until(next_look).await;
    hub.changed().await;
}

async fn ask(link: &Link, method: &'static str, uri: &str) {
    let request = Request::new(method).with("uri", Value::from(uri).to_string());
    match timeout(SUBSCRIBE_TIMEOUT, link.ask(request).result()).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => debug!(method, %error, "upstream server refuses a subscription"),
        Err(_) => debug!(method, "upstream server does not answer a subscription"),
    }
}

#[cfg(test)]
mod tests;
