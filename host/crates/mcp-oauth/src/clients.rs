//! Clients that were registered at authorization servers for logins of users, so that not each login
//! registers another one.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use rmcp::transport::auth::OAuthClientConfig;
use tokio::time::Instant;

use airlock_core::tool::ClientName;

/// Time after which a client is registered anew: the authorization server may have forgotten it, which no
/// redirect reports.
const LIFE: Duration = Duration::from_hours(1);
/// Maximum number of clients, of which a server has one for each list of scopes that it names, and it may name any
/// number of lists. One more ends the oldest of the server that has the most.
const MAX_CLIENTS: usize = 1_000;

/// Purpose of a registered client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RegistrationKey {
    client: ClientName,
    endpoint: String,
    redirect: String,
    scopes: String,
}

/// Clients, each with the time of its registration.
type ClientTable = HashMap<RegistrationKey, (OAuthClientConfig, Instant)>;

/// The registered clients of a process.
#[derive(Default)]
pub(super) struct RegisteredClients(Mutex<ClientTable>);

impl RegistrationKey {
    pub(super) fn new(
        client: &ClientName,
        endpoint: &str,
        redirect: &str,
        scopes: &[&str],
    ) -> Self {
        Self {
            client: client.clone(),
            endpoint: endpoint.to_owned(),
            redirect: redirect.to_owned(),
            scopes: scopes.join(" "),
        }
    }
}

impl RegisteredClients {
    /// Returns the client that was registered for this within [`LIFE`].
    pub(super) fn get(&self, key: &RegistrationKey) -> Option<OAuthClientConfig> {
        let clients = self.0.lock();
        let (client, registered) = clients.get(key)?;
        (registered.elapsed() < LIFE).then(|| client.clone())
    }

    pub(super) fn add(&self, key: RegistrationKey, client: OAuthClientConfig) {
        let mut clients = self.0.lock();
        if clients.len() >= MAX_CLIENTS
            && !clients.contains_key(&key)
            && let Some(oldest) = oldest_of_most(&clients)
        {
            clients.remove(&oldest);
        }
        clients.insert(key, (client, Instant::now()));
    }

    /// Forgets the client with this identifier that was registered for this redirect and these scopes of
    /// one server, because its authorization server does not know it any more. An identifier that another
    /// server has issued as well stays.
    pub(super) fn forget(
        &self,
        client: &ClientName,
        redirect: &str,
        scopes: &str,
        client_id: &str,
    ) {
        self.0.lock().retain(|key, (registered, _)| {
            key.client != *client
                || key.redirect != redirect
                || key.scopes != scopes
                || registered.client_id != client_id
        });
    }
}

/// Returns the oldest client of the server that has the most.
fn oldest_of_most(clients: &ClientTable) -> Option<RegistrationKey> {
    let mut counts = HashMap::<_, usize>::new();
    for key in clients.keys() {
        *counts.entry(&key.client).or_default() += 1;
    }
    let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let own = clients.iter().filter(|(key, _)| key.client == *most);
    own.min_by_key(|(_, (_, registered))| *registered).map(|(key, _)| key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_names_many_scopes_displaces_its_own_clients() {
        let clients = RegisteredClients::default();
        let one = ClientName::parse("one").expect("a good name");
        let kept = RegistrationKey::new(&one, "https://as/register", "https://a/", &[]);
        clients.add(kept.clone(), OAuthClientConfig::new("1", "https://a/"));
        // The kept one is the oldest of all.
        tokio::time::advance(Duration::from_secs(1)).await;
        let many = ClientName::parse("many").expect("a good name");
        for number in 0..MAX_CLIENTS + 10 {
            let scope = number.to_string();
            let key = RegistrationKey::new(&many, "https://as/register", "https://a/", &[&scope]);
            clients.add(key, OAuthClientConfig::new("2", "https://a/"));
        }
        assert_eq!(clients.0.lock().len(), MAX_CLIENTS);
        assert!(clients.get(&kept).is_some());
        clients.add(kept, OAuthClientConfig::new("3", "https://a/"));
        assert_eq!(clients.0.lock().len(), MAX_CLIENTS, "a renewed one ends no other");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_registered_once_for_the_same_redirect_and_scopes_within_an_hour() {
        let clients = RegisteredClients::default();
        let client = ClientName::parse("up").expect("a good name");
        let key = |redirect: &str, scopes: &[&str]| {
            RegistrationKey::new(&client, "https://as/register", redirect, scopes)
        };
        clients.add(key("https://a/", &["read"]), OAuthClientConfig::new("1", "https://a/"));
        let id = |found: Option<OAuthClientConfig>| found.map(|client| client.client_id);
        assert_eq!(id(clients.get(&key("https://a/", &["read"]))), Some("1".to_owned()));
        assert!(clients.get(&key("https://b/", &["read"])).is_none());
        assert!(clients.get(&key("https://a/", &["write"])).is_none());
        tokio::time::advance(LIFE).await;
        assert!(clients.get(&key("https://a/", &["read"])).is_none());
        clients.add(key("https://a/", &["read"]), OAuthClientConfig::new("2", "https://a/"));
        let other = ClientName::parse("other").expect("a good name");
        clients.forget(&other, "https://a/", "read", "2");
        clients.forget(&client, "https://b/", "read", "2");
        clients.forget(&client, "https://a/", "write", "2");
        clients.forget(&client, "https://a/", "read", "1");
        assert!(clients.get(&key("https://a/", &["read"])).is_some());
        clients.forget(&client, "https://a/", "read", "2");
        assert!(clients.get(&key("https://a/", &["read"])).is_none());
    }
}
