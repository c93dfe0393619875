//! Serves one connection until it ends: follows the list of tools, checks the server, and answers
//! its requests.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    super::{
        control::ControlCommand,
        pins::ClientPins,
        relay,
        server::{Instance, Server, ServerAccess},
    },
    Supervisor,
    connect::ConnectionEnd,
    entry::ClientEntry,
    listing::list_pace,
    renewal::{Renewals, Replacement, retire},
};
use crate::limits::{LIST_CHANGE_DELAY, LIST_TTL};
use airlock_mcp_client::{
    AskError, Attempt, Connection, ConnectionError, FLOOD_TOLERANCE, Handshake, Inbox, Intake,
    LAST_RETRY, Lifecycle, Link, Noise, ServerEvent, Settings, Timeouts, ToolList, Unsolicited,
    answer_requests, check_connection, read_tools,
};

/// Reason that serving ended, before the connection is closed.
enum ServingEnd {
    Stopped,
    Idle,
    Reconnect,
    Failed(ConnectionError),
    /// Another connection takes its place.
    Replaced(Box<Replacement>),
}

/// A connection that is served.
pub(super) struct ServedConnection {
    pub(super) connection: Connection,
    /// Work that runs until the connection is closed. Returns the error that ended it.
    pub(super) upkeep: BoxFuture<'static, ConnectionError>,
    /// Notifications of the server; `None` once a reader has taken the receiver.
    events: Option<mpsc::Receiver<ServerEvent>>,
}

impl ServedConnection {
    /// Begins to serve a connection. Without traffic for `stale`, it fails.
    fn new(mut connection: Connection, stale: Option<Duration>) -> Self {
        let link = connection.link.clone();
        let intake = connection.intake.take();
        let Some(Intake { unsolicited, abandoned }) = intake else {
            let upkeep = Box::pin(std::future::ready(ConnectionError::Closed));
            return Self { connection, upkeep, events: None };
        };
        let Unsolicited { requests, responses, events } = unsolicited;
        let upkeep = Box::pin(async move {
            let inbox = link.inbox();
            tokio::select! {
                flood = inbox.flooded() => ConnectionError::Flood(flood),
                error = watch_silence(inbox, stale) => error,
                () = link.cancel_abandoned(abandoned) => ConnectionError::Closed,
                () = answer_requests(&link, requests, responses) => ConnectionError::Closed,
            }
        });
        Self { connection, upkeep, events: Some(events) }
    }
}

impl Supervisor {
    /// Serves a connection, and those that take its place, until the last one ends; then closes it and
    /// stops its process. With `recheck`, the list is read again after this time.
    pub(super) async fn serve(
        &mut self,
        connection: Connection,
        handshake: Handshake,
        mut recheck: Option<Duration>,
        stop: &CancellationToken,
    ) -> ConnectionEnd {
        let stale = self.settings.timeouts.stale;
        let attempt = Attempt { handshake, has_headers: self.framing.has_headers() };
        let Self { settings, credentials, instance, entry, retiring_place, .. } = &*self;
        let place = retiring_place.clone();
        let mut renewals = Renewals::new(settings, credentials, instance, entry, attempt, place);
        let mut current = ServedConnection::new(connection, stale);
        let end = loop {
            match self.follow(&mut current, &mut renewals, recheck, stop).await {
                ServingEnd::Replaced(next) => {
                    let Replacement { connection, list, place } = *next;
                    let old =
                        std::mem::replace(&mut current, ServedConnection::new(connection, stale));
                    if let Some(agreed) = current.connection.link.agreed() {
                        self.instance.status().agree(agreed);
                    }
                    // From here on, calls use the new connection.
                    recheck = self.adopt(list, &current.connection.link).await;
                    let client = self.settings.name.clone();
                    self.retiring.spawn(retire(client, old, place, stop.clone()));
                    if !self.entry.is_sole() {
                        continue;
                    }
                    // Only now, because what is relayed is asked of the connection that calls use.
                    let Self { entry, settings, server, .. } = &*self;
                    let entry = entry.writer();
                    let link = current.connection.link.clone();
                    tokio::select! {
                        () = relay::publish_lists(entry, settings, server, &link) => {}
                        error = &mut current.upkeep => break ServingEnd::Failed(error),
                        () = stop.cancelled() => break ServingEnd::Stopped,
                    }
                }
                end => break end,
            }
        };
        let connection = current.connection;
        let lifecycle = self.settings.lifecycle;
        match (&end, lifecycle) {
            (ServingEnd::Idle, Lifecycle::PerCall) => self.give_own_access(handshake),
            // The calls wait for the next start already.
            (ServingEnd::Idle, _) => {}
            _ => self.instance.set_access(ServerAccess::Down),
        }
        match end {
            ServingEnd::Failed(error) => ConnectionEnd::Failed(connection.close(error).await),
            other => {
                connection.shut_down().await;
                match other {
                    ServingEnd::Idle if lifecycle == Lifecycle::PerCall => {
                        self.wait_between_lists(stop).await
                    }
                    ServingEnd::Idle => ConnectionEnd::Idle,
                    ServingEnd::Reconnect => ConnectionEnd::Reconnect,
                    ServingEnd::Stopped | ServingEnd::Failed(_) | ServingEnd::Replaced(_) => {
                        ConnectionEnd::Stopped
                    }
                }
            }
        }
    }

    /// Serves a connection until it ends, or until another one is ready to take its place.
    async fn follow(
        &mut self,
        current: &mut ServedConnection,
        renewals: &mut Renewals,
        recheck: Option<Duration>,
        stop: &CancellationToken,
    ) -> ServingEnd {
        let ServedConnection { connection, upkeep, events } = current;
        let Some(events) = events.take() else {
            return ServingEnd::Failed(ConnectionError::Closed);
        };
        let process = connection.process_id();
        let link = connection.link.clone();
        let inbox = link.inbox().clone();
        let server = self.server.clone();
        let instance = self.instance.clone();
        server.observe(&link);
        let _process = process.map(|process| instance.runs(process));
        let pins = self.pins.clone();
        let entry = self.entry.clone();
        let settings = self.settings.clone();
        let end = tokio::select! {
            () = stop.cancelled() => ServingEnd::Stopped,
            ended = &mut connection.receiver => {
                return ServingEnd::Failed(ended.map_or(ConnectionError::Closed, Into::into));
            }
            error = upkeep => ServingEnd::Failed(error),
            error = check_regularly(&instance, &link, &settings.timeouts) => ServingEnd::Failed(error),
            end = self.follow_list(&link, recheck) => end,
            () = relay_offers(&entry, &instance, &settings, &server, &link) => ServingEnd::Failed(ConnectionError::Closed),
            () = relay::follow_events(&server, &instance, events) => ServingEnd::Failed(ConnectionError::Closed),
            () = watch_rate(&instance, &inbox) => ServingEnd::Failed(ConnectionError::Closed),
            () = report_noise(&settings, &inbox) => ServingEnd::Failed(ConnectionError::Closed),
            () = pins.follow(|| inbox.suspect_change()) => ServingEnd::Failed(ConnectionError::Closed),
            () = unneeded(&instance, settings.lifecycle) => ServingEnd::Idle,
            next = renewals.replacement(process) => ServingEnd::Replaced(next),
        };
        match end {
            // A request may learn of the end before the receiver, which knows the reason.
            ServingEnd::Failed(ConnectionError::Closed) => {
                ServingEnd::Failed(connection.end().await)
            }
            end => end,
        }
    }

    /// Waits until the list of a server with one connection for each call is to be read again.
    async fn wait_between_lists(&mut self, stop: &CancellationToken) -> ConnectionEnd {
        let interval = self.settings.sync_interval;
        let instance = self.instance.clone();
        let pins = self.pins.clone();
        tokio::select! {
            () = stop.cancelled() => ConnectionEnd::Stopped,
            () = wait_for(interval) => ConnectionEnd::Reconnect,
            () = held_out_for_long(&instance, &pins) => ConnectionEnd::Reconnect,
            Some(command) = self.commands.recv() => {
                match command {
                    ControlCommand::Reconnect(answer) => self.reconnecting = Some(answer),
                    ControlCommand::Refresh(answer) => drop(answer.send(Ok(self.published))),
                }
                ConnectionEnd::Reconnect
            }
        }
    }

    /// Reads the list again whenever it has changed, its time to live has ended, the interval of the
    /// configuration has passed, or the operator requests it. A list that changes constantly is read
    /// less and less often.
    async fn follow_list(&mut self, link: &Arc<Link>, recheck: Option<Duration>) -> ServingEnd {
        let entry = self.entry.clone();
        let instance = self.instance.clone();
        let mut pace = list_pace();
        let mut read = Instant::now();
        let mut next = self.next_reading(recheck, None, read);
        loop {
            let mut answer = None;
            // True while a change waits to be read.
            let mut is_changing = false;
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => match command {
                    ControlCommand::Reconnect(requested) => {
                        self.reconnecting = Some(requested);
                        return ServingEnd::Reconnect;
                    }
                    ControlCommand::Refresh(requested) => answer = Some(requested),
                },
                () = async {
                    link.inbox().changed().await;
                    // A tool may do something else from now on, whatever its definition says. There are
                    // no results of an instance that is held out.
                    if instance.is_admitted() {
                        entry.writer().forget_results();
                    }
                    let delay = pace.after(read.elapsed()).max(LIST_CHANGE_DELAY);
                    is_changing = true;
                    sleep(delay).await;
                    is_changing = false;
                } => {}
                () = wait_until(next) => {}
            }
            if is_changing {
                // This reading may begin before the change is complete.
                link.inbox().suspect_change();
            }
            let list = match read_tools(link).await {
                Ok(list) => list,
                // The server is connected; a list that cannot be read is no reason to end calls.
                Err(AskError::TooLarge | AskError::Unreadable(_) | AskError::Refused(_)) => {
                    ToolList::unread()
                }
                Err(error) => {
                    return ServingEnd::Failed(ConnectionError::asked(
                        error,
                        ConnectionError::ListTools,
                    ));
                }
            };
            let ttl = list.ttl;
            let recheck = self.adopt(list, link).await;
            if let Some(answer) = answer {
                let _ = answer.send(Ok(self.published));
            }
            read = Instant::now();
            next = self.next_reading(recheck, ttl, read);
        }
    }

    /// Returns the time of the next reading; `None` if only a report of the server or the operator
    /// causes one.
    fn next_reading(
        &self,
        recheck: Option<Duration>,
        ttl: Option<Duration>,
        read: Instant,
    ) -> Option<Instant> {
        let ttl = ttl
            .map(|ttl| ttl.clamp(*LIST_TTL.start(), *LIST_TTL.end()))
            .filter(|_| self.honours_ttl());
        recheck
            .or_else(|| [self.settings.sync_interval, ttl].into_iter().flatten().min())
            .map(|delay| read + delay)
    }

    /// Returns whether a server's time to live causes a reading: it need not if the operator has set
    /// an interval.
    fn honours_ttl(&self) -> bool {
        self.settings.sync_interval.is_none()
    }
}

/// Waits for a time; for ever if there is none.
async fn wait_for(delay: Option<Duration>) {
    match delay {
        Some(delay) => sleep(delay).await,
        None => std::future::pending().await,
    }
}

/// Waits until a time; for ever if there is none.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until an instance that has no connection is held out, and its list is to be read again: the lock
/// file has changed, or [`LAST_RETRY`] has passed. No call needs it, so none would start it.
pub(super) async fn held_out_for_long(instance: &Instance, pins: &ClientPins) {
    instance.until_admitted(false).await;
    let changed = Notify::new();
    tokio::select! {
        () = sleep(LAST_RETRY) => {}
        () = pins.follow(|| changed.notify_one()) => {}
        () = changed.notified() => {}
    }
}

/// Checks an idle server at intervals, and any server to which a message could not be sent. A busy
/// server is not checked at intervals: many do not respond while they work, and their calls have
/// deadlines. Returns the error if a check fails.
async fn check_regularly(instance: &Instance, link: &Link, timeouts: &Timeouts) -> ConnectionError {
    loop {
        tokio::select! {
            () = wait_for(timeouts.heartbeat) => if !instance.is_idle() { continue },
            () = link.check_requested() => {}
        }
        if let Err(error) = check_connection(link).await {
            return error;
        }
    }
}

/// Keeps the resources and prompts that are offered up to date, and the subscriptions to them, as long as
/// they are those of this instance. Of the others, only the lists of tools are followed. Never returns.
async fn relay_offers(
    entry: &ClientEntry,
    instance: &Instance,
    settings: &Settings,
    server: &Server,
    link: &Link,
) {
    let writer = entry.writer();
    loop {
        let leading = tokio::select! {
            leading = entry.lead(instance) => leading,
            () = relay::follow_tools(link) => return,
        };
        let relaying = async {
            if !entry.is_sole() {
                relay::publish_lists(writer, settings, server, link).await;
            }
            tokio::join!(
                relay::subscribe(server, link),
                relay::follow_lists(writer, settings, server, link),
            );
        };
        tokio::select! {
            () = relaying => {}
            () = instance.until_admitted(false) => {}
        }
        drop(leading);
    }
}

/// Keeps the state of a server that sends more than is read from being ready. Never returns.
async fn watch_rate(instance: &Instance, inbox: &Inbox) {
    loop {
        inbox.throttled().await;
        instance.status().set_flooding(true);
        // A server at its rate would change its state all the time.
        while timeout(FLOOD_TOLERANCE, inbox.throttled()).await.is_ok() {
            instance.status().set_flooding(true);
        }
        instance.status().set_flooding(false);
    }
}

/// Logs the first text of the server that is no message. Never returns.
async fn report_noise(settings: &Settings, inbox: &Inbox) {
    inbox.noisy().await;
    if let Some(Noise { first, .. }) = inbox.noise() {
        warn!(
            client = %settings.name,
            first,
            "upstream server sends text that is no MCP message; it is dropped"
        );
    }
    std::future::pending::<()>().await;
}

/// Waits until the server has sent nothing for `limit`.
async fn watch_silence(inbox: &Inbox, limit: Option<Duration>) -> ConnectionError {
    let Some(limit) = limit else { return std::future::pending().await };
    loop {
        let due = inbox.last_received() + limit;
        if due <= Instant::now() {
            return ConnectionError::Stale(limit);
        }
        sleep_until(due).await;
    }
}

/// Waits until the connection is not needed: at once if every call has its own, or after the time
/// without calls that the operator has set. Calls then wait for the next start.
async fn unneeded(instance: &Instance, lifecycle: Lifecycle) {
    match lifecycle {
        Lifecycle::Persistent => std::future::pending().await,
        Lifecycle::PerCall => {}
        Lifecycle::Idle(ttl) => loop {
            let uses = instance.uses();
            sleep(ttl).await;
            if instance.uses() == uses && instance.retire() {
                return;
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::pins::Pins;
    use airlock_core::tool::ClientName;
    use airlock_mcp_client::Process;

    #[tokio::test(start_paused = true)]
    async fn a_held_out_instance_is_listed_again_after_a_minute_or_a_change_of_the_lock_file() {
        let name = ClientName::parse("up").expect("a good name");
        let settings = Settings::new(name, Process::default());
        let server = Server::new(&settings, Handle::current(), None, None);
        let store = airlock_store::Settings::new("unused");
        let pins = Pins::new(None, store.clone().into()).add(&settings);
        let instance = &server.instances()[0];
        instance.set_admitted(true);
        let waiting = timeout(10 * LAST_RETRY, held_out_for_long(instance, &pins));
        assert!(waiting.await.is_err(), "a call would start it");
        instance.set_admitted(false);
        let began = Instant::now();
        held_out_for_long(instance, &pins).await;
        assert!((LAST_RETRY..2 * LAST_RETRY).contains(&began.elapsed()));
        let lock = tempfile::NamedTempFile::new().expect("a file");
        let pins = Pins::new(Some(lock.path().to_owned()), store.into()).add(&settings);
        let began = Instant::now();
        held_out_for_long(instance, &pins).await;
        assert!(began.elapsed() < LAST_RETRY, "the file is new");
    }
}
