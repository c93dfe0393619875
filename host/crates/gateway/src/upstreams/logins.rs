//! Logins of users at the servers that act for them, for the pages and the API of the server.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::sleep;
use tracing::{info, warn};
use url::Url;

use super::UpstreamServers;
use airlock_core::{
    act::{Actor, Acts},
    secret::Secret,
    tool::ClientName,
};
use airlock_mcp_client::{Settings, login_server};
use airlock_mcp_oauth::{
    FollowError, HttpSettings, LoginError, LoginServer, LoginsUnavailable, OpenLink, is_secret,
    new_secret,
};
use airlock_server::{LoginOffer, LoginRefusal, UserLogins};
use airlock_store::{OwnerId, login::UserLogin};
use airlock_strings::with_causes;
use airlock_upstream::Accounts;

/// Time before logins are removed again after a failure. It doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest time before that.
const LAST_RETRY: Duration = Duration::from_mins(1);

impl UpstreamServers {
    /// Sets the URL at which browsers reach the gateway.
    pub(in super::super) fn serve_logins_at(&self, base: Url) {
        self.accounts.links().serve_at(base);
    }

    /// Sets the record of logins.
    pub(in super::super) fn record_logins_in(&self, acts: Acts) {
        self.accounts.links().record_in(acts);
    }

    /// Removes the logins of tenants that no longer exist, in the background, and closes their connections.
    pub(in super::super) fn forget_tenants(&self, holders: Vec<OwnerId>) {
        if !holders.is_empty() {
            self.tasks.spawn(forget(self.accounts.clone(), UselessLogins::OfHolders(holders)));
        }
    }

    /// Removes the logins of users of a client at all servers but that of these settings, in the background:
    /// the client was removed, or has another URL or other settings of its logins.
    pub(super) fn forget_servers(&self, client: &ClientName, present: Option<&Settings>) {
        let present = present.and_then(|settings| settings.transport.http());
        let useless = UselessLogins::Elsewhere(client.clone(), present.cloned().map(Box::new));
        self.tasks.spawn(forget(self.accounts.clone(), useless));
    }

    /// Returns the settings of a client that is kept connected and acts for single users.
    fn settings(&self, client: &str) -> Result<Settings, LoginRefusal> {
        let settings = self.find(client).map(|server| server.settings);
        settings.filter(is_per_user).ok_or(LoginRefusal::Gone)
    }

    /// Fails if no client acts for single users, so that no login is possible and the store need not be read.
    fn check_has_users(&self) -> Result<(), LoginRefusal> {
        let present = self.present.lock();
        let has_users = present.running.values().any(|server| is_per_user(&server.settings));
        if has_users { Ok(()) } else { Err(LoginRefusal::Gone) }
    }
}

fn is_per_user(settings: &Settings) -> bool {
    settings.transport.http().is_some_and(|http| http.users.is_some())
}

/// Returns the server of a client that acts for single users.
fn server(settings: &Settings) -> Result<LoginServer<'_>, LoginRefusal> {
    login_server(settings).ok_or(LoginRefusal::Gone)
}

/// Describes the login of a link at the server of these settings.
fn offer(link: OpenLink, settings: &Settings) -> LoginOffer {
    let OpenLink { client, holder, key_name, user } = link;
    let http = settings.transport.http();
    let url = http.and_then(|http| Url::parse(&http.url).ok());
    let host = url.map(|url| url.authority().to_owned()).unwrap_or_default();
    let header_keys = http.and_then(HttpSettings::user_headers).unwrap_or_default();
    let header_keys = header_keys.iter().map(ToString::to_string).collect();
    LoginOffer { client, host, header_keys, holder, key_name, user }
}

/// Completes a login. The next call uses it, over another connection.
async fn complete(
    accounts: Accounts,
    query: String,
    browser: String,
    settings: Settings,
) -> Result<(), LoginRefusal> {
    let completing = accounts.links().complete(&query, &browser, server(&settings)?);
    let login = completing.await.map_err(refusal)?;
    if let Some(holder) = login.holder {
        accounts.disconnect(holder, Some(&login.client));
    }
    Ok(())
}

/// Logins of users that are of no use any more.
enum UselessLogins {
    /// Those of tenants that no longer exist.
    OfHolders(Vec<OwnerId>),
    /// Those of a client at other servers than that of its present settings, if it has any.
    Elsewhere(ClientName, Option<Box<HttpSettings>>),
}

impl UselessLogins {
    async fn remove(&self, accounts: &Accounts) -> Result<Vec<UserLogin>, LoginsUnavailable> {
        match self {
            Self::OfHolders(holders) => {
                for holder in holders {
                    accounts.disconnect(*holder, None);
                }
                accounts.logins().remove_of_holders(holders).await
            }
            Self::Elsewhere(client, present) => {
                accounts.logins().remove_elsewhere(client, present.as_deref()).await
            }
        }
    }
}

async fn forget(accounts: Accounts, useless: UselessLogins) {
    let mut delay = FIRST_RETRY;
    loop {
        match useless.remove(&accounts).await {
            Ok(removed) if removed.is_empty() => return,
            Ok(removed) => {
                info!(
                    logins = removed.len(),
                    "logins of removed virtual keys or clients were removed"
                );
                return;
            }
            Err(error) => {
                let error = with_causes(&error);
                warn!(error, "logins of removed virtual keys or clients stay for now");
            }
        }
        sleep(delay).await;
        delay = (delay * 2).min(LAST_RETRY);
    }
}

impl UserLogins for UpstreamServers {
    fn is_secure(&self) -> bool {
        self.accounts.links().is_secure()
    }

    fn new_secret(&self) -> String {
        new_secret()
    }

    fn is_secret(&self, text: &str) -> bool {
        is_secret(text)
    }

    fn find<'a>(&'a self, link: &'a str) -> BoxFuture<'a, Result<LoginOffer, LoginRefusal>> {
        Box::pin(async move {
            self.check_has_users()?;
            let link = self.accounts.links().find(link).await.map_err(refusal)?;
            let settings = self.settings(&link.client)?;
            Ok(offer(link, &settings))
        })
    }

    fn begin<'a>(
        &'a self,
        link: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<String, LoginRefusal>> {
        Box::pin(async move {
            self.check_has_users()?;
            let links = self.accounts.links();
            let client = links.find(link).await.map_err(refusal)?.client;
            let settings = self.settings(&client)?;
            links.begin(link, browser, server(&settings)?).await.map_err(refusal)
        })
    }

    fn submit<'a>(
        &'a self,
        link: &'a str,
        entered: &'a [(String, Secret)],
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        Box::pin(async move {
            self.check_has_users()?;
            let links = self.accounts.links();
            let client = links.find(link).await.map_err(refusal)?.client;
            let settings = self.settings(&client)?;
            let submitting = links.submit(link, entered, server(&settings)?);
            let login = submitting.await.map_err(refusal)?;
            if let Some(holder) = login.holder {
                self.accounts.disconnect(holder, Some(&login.client));
            }
            Ok(())
        })
    }

    fn enter_key<'a>(
        &'a self,
        link: &'a str,
        is_holders: bool,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        Box::pin(async move {
            self.check_has_users()?;
            self.accounts.links().enter_key(link, is_holders).await.map_err(refusal)
        })
    }

    fn unconfirmed<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginOffer>, LoginRefusal>> {
        Box::pin(async move {
            let settings = self.settings(client)?;
            let links = self.accounts.links();
            let unconfirmed = links.unconfirmed(query, browser, server(&settings)?);
            let link = unconfirmed.await.map_err(refusal)?;
            Ok(link.map(|link| offer(link, &settings)))
        })
    }

    fn complete<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>> {
        Box::pin(async move {
            let settings = self.settings(client)?;
            let completing =
                complete(self.accounts.clone(), query.to_owned(), browser.to_owned(), settings);
            // In a task of its own: the code is used up, so a browser that leaves must not lose the tokens.
            let completed = tokio::spawn(completing).await;
            completed.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
        })
    }

    fn list(
        &self,
        holder: Option<OwnerId>,
        offset: u32,
    ) -> BoxFuture<'_, Result<Vec<UserLogin>, LoginRefusal>> {
        Box::pin(async move {
            self.accounts
                .logins()
                .of_users(holder, offset)
                .await
                .map_err(|error| unavailable(&error))
        })
    }

    fn revoke<'a>(
        &'a self,
        session: &'a str,
        holder: Option<OwnerId>,
        by: Actor,
    ) -> BoxFuture<'a, Result<bool, LoginRefusal>> {
        Box::pin(async move {
            let removing = self.accounts.logins().remove_of_user(session, holder);
            let Some(removed) = removing.await.map_err(|error| unavailable(&error))? else {
                return Ok(false);
            };
            self.accounts.links().record_logout(&removed.id.client, &removed.holder, by);
            if let Some(holder) = removed.id.holder {
                self.accounts.disconnect(holder, Some(&removed.id.client));
            }
            Ok(true)
        })
    }
}

fn refusal(error: FollowError) -> LoginRefusal {
    match error {
        FollowError::Gone => LoginRefusal::Gone,
        FollowError::OtherBrowser => LoginRefusal::OtherBrowser,
        FollowError::Busy => LoginRefusal::Busy,
        FollowError::Headers(error) => LoginRefusal::Invalid(error.to_string()),
        FollowError::Login(LoginError::Store(error)) => unavailable(&error),
        FollowError::Login(error) => LoginRefusal::Failed(with_causes(&error)),
    }
}

fn unavailable(error: &LoginsUnavailable) -> LoginRefusal {
    LoginRefusal::Unavailable(with_causes(error))
}
