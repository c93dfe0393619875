//! Tests with a token endpoint; the authorization server's page is a URL that nothing opens.

use std::{future::poll_fn, pin::pin, task::Poll};

use airlock_test_http::{Server, ok, says};
use futures_util::future::join_all;
use url::form_urlencoded;

use super::*;
use rmcp::transport::auth::OAuthClientConfig;

use super::super::{
    clients::RegistrationKey,
    http_settings::{HttpSettings, UserCredentials},
    settings::Oauth,
    tokens::tests::login,
};
use airlock_core::{
    tenant::{Tenant, User},
    tool::ClientName,
};
use airlock_store::login::LoginHolder;

const TOKENS: &str = r#"{"access_token": "access", "token_type": "Bearer"}"#;
const BROWSER: &str = "browser";

struct World {
    issuer: Server,
    links: LoginLinks,
    home: tempfile::TempDir,
}

/// A client with its server.
struct Client {
    name: ClientName,
    http: HttpSettings,
}

impl Client {
    fn server(&self) -> LoginServer<'_> {
        LoginServer { client: &self.name, http: &self.http }
    }
}

impl World {
    async fn new() -> Self {
        Self::with(Server::start(|_| ok(TOKENS)).await)
    }

    /// Creates a world whose token endpoint refuses every code with this error.
    async fn refusing(code: &'static str) -> Self {
        let json = "content-type: application/json\r\n";
        let body = format!("{{\"error\": \"{code}\"}}");
        Self::with(Server::start(move |_| says("400 Bad Request", json, &body)).await)
    }

    fn with(issuer: Server) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let logins = Logins::new(airlock_store::Settings::new(home.path().join("a.db")).into());
        let links = LoginLinks::new(logins);
        links.serve_at(Url::parse("http://127.0.0.1:7/airlock").expect("a URL"));
        Self { issuer, links, home }
    }

    fn client(&self, scope: &str) -> Client {
        self.client_named("up", scope)
    }

    fn client_named(&self, client: &str, scope: &str) -> Client {
        let oauth = Oauth {
            client_id: Some("id".to_owned()),
            authorize_url: Some(self.issuer.url("127.0.0.1", "/authorize")),
            token_url: Some(self.issuer.url("127.0.0.1", "/token")),
            scopes: vec![scope.to_owned()],
            ..Oauth::default()
        };
        let http = HttpSettings {
            oauth: Some(oauth),
            users: Some(UserCredentials::Login),
            ..HttpSettings::new(self.issuer.url("127.0.0.1", "/mcp"))
        };
        let name = ClientName::parse(client).expect("a good name");
        Client { name, http }
    }

    /// Returns the identifier of the link that is offered to a tenant.
    async fn offer(&self, tenant: &Tenant) -> String {
        let identity = tenant.identity().expect("it has one");
        let url = self.links.offer(self.client("read").server(), &identity).await.expect("a link");
        let link = url.strip_prefix("http://127.0.0.1:7/airlock/oauth/login/").expect("its URL");
        assert!(is_secret(link), "{link}");
        link.to_owned()
    }

    /// Begins a login. Returns the query of the redirect that follows.
    async fn begin(&self, link: &str) -> String {
        let url =
            self.links.begin(link, BROWSER, self.client("read").server()).await.expect("begun");
        let url = Url::parse(&url).expect("a URL");
        let parameter = |name: &str| {
            let mut pairs = url.query_pairs();
            pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let redirect = parameter("redirect_uri");
        assert_eq!(redirect.as_deref(), Some("http://127.0.0.1:7/airlock/oauth/callback/up"));
        assert_eq!(parameter("code_challenge_method").as_deref(), Some("S256"));
        let state = parameter("state").expect("a state");
        form_urlencoded::Serializer::new(String::new())
            .append_pair("state", &state)
            .append_pair("code", "the-code")
            .finish()
    }

    async fn complete(&self, query: &str, browser: &str) -> Result<LoginId, FollowError> {
        self.links.complete(query, browser, self.client("read").server()).await
    }
}

fn ann() -> Tenant {
    Tenant::of_key([1; 32], "ann")
}

fn bob() -> Tenant {
    let user = User { issuer: "https://idp.example".to_owned(), subject: "bob".to_owned() };
    Tenant::of_user([2; 32], "staff", user)
}

#[tokio::test]
async fn a_link_names_who_asked_and_is_offered_again_until_it_was_used() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    let other = world.offer(&bob()).await;
    assert_eq!(world.offer(&ann()).await, link);
    assert_ne!(link, other);
    let found = world.links.find(&link).await.expect("it is open");
    let expected = OpenLink {
        client: "up".to_owned(),
        holder: ann().scope(),
        key_name: "ann".to_owned(),
        user: None,
    };
    assert_eq!(found, expected);
    let found = world.links.find(&other).await.expect("it is open");
    let user = ("https://idp.example".to_owned(), "bob".to_owned());
    assert_eq!((found.key_name.as_str(), found.user), ("staff", Some(user)));
    let query = world.begin(&link).await;
    assert_eq!(world.offer(&ann()).await, link, "the user may have to begin again");
    world.complete(&query, BROWSER).await.expect("completed");
    assert!(matches!(world.links.find(&link).await, Err(FollowError::Gone)));
    assert_ne!(world.offer(&ann()).await, link);
    for no_link in ["", "x", &link[1..], "../../../../../../../../../../../etc/passwd"] {
        assert!(matches!(world.links.find(no_link).await, Err(FollowError::Gone)), "{no_link}");
    }
}

#[tokio::test]
async fn a_login_is_completed_once_and_in_the_browser_that_began_it_alone() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    let replaced = world.begin(&link).await;
    let query = world.begin(&link).await;
    for (query, browser) in [(&replaced, BROWSER), (&"state=guessed&code=x".to_owned(), BROWSER)] {
        assert!(matches!(world.complete(query, browser).await, Err(FollowError::Gone)), "{query}");
    }
    let foreign = world.complete(&query, "another browser").await;
    assert!(matches!(foreign, Err(FollowError::OtherBrowser)));
    assert!(world.issuer.requests().is_empty(), "no code was sent");
    let id = world.complete(&query, BROWSER).await.expect("completed");
    assert_eq!(id.holder, Some(ann().scope()));
    assert!(matches!(world.complete(&query, BROWSER).await, Err(FollowError::Gone)));
    let requests = world.issuer.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    for part in ["code=the-code", "code_verifier=", "resource=http%3A%2F%2F127.0.0.1"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let logins = world.links.0.logins.of_users(Some(bob().scope()), 0).await.expect("read");
    assert!(logins.is_empty());
    assert!(world.links.0.logins.has(&id).await.expect("read"));
}

#[tokio::test]
async fn the_code_of_another_server_is_not_sent_to_the_server_that_began_the_login() {
    let world = World::new().await;
    let other = world.client_named("other", "read");
    let query = world.begin(&world.offer(&ann()).await).await;
    // A hostile server has sent the browser to the authorization server of `other` with its own state, so
    // the code comes to the redirect of `other`, without an issuer.
    let mixed = world.links.complete(&query, BROWSER, other.server()).await;
    assert!(matches!(mixed, Err(FollowError::Gone)), "{mixed:?}");
    let mixed = world.links.unconfirmed(&query, BROWSER, other.server()).await;
    assert!(matches!(mixed, Err(FollowError::Gone)), "{mixed:?}");
    assert!(world.issuer.requests().is_empty(), "no code was sent");
    assert!(world.complete(&query, BROWSER).await.is_ok(), "its own redirect counts");
}

#[tokio::test]
async fn over_plain_http_a_redirect_with_a_code_has_to_be_confirmed() {
    let world = World::new().await;
    let client = world.client("read");
    let query = world.begin(&world.offer(&bob()).await).await;
    let asked =
        world.links.unconfirmed(&query, BROWSER, client.server()).await.expect("it is open");
    assert_eq!(asked.expect("it is asked").key_name, "staff");
    let foreign = world.links.unconfirmed(&query, "another browser", client.server()).await;
    assert!(matches!(foreign, Err(FollowError::OtherBrowser)), "{foreign:?}");
    let denied =
        world.links.unconfirmed("state=x&error=access_denied", BROWSER, client.server()).await;
    assert!(matches!(denied, Ok(None)), "{denied:?}");
    let over_tls = LoginLinks::new(world.links.0.logins.clone());
    over_tls.serve_at(Url::parse("https://airlock.example.com").expect("a URL"));
    let redirected = over_tls.unconfirmed(&query, BROWSER, client.server()).await;
    assert!(matches!(redirected, Ok(None)), "{redirected:?}");
    assert!(world.complete(&query, BROWSER).await.is_ok(), "nothing was completed before");
}

#[tokio::test]
async fn calls_at_once_get_one_link_and_a_login_ends_all_links_of_its_holder() {
    let world = World::new().await;
    let ann = ann();
    let links = join_all((0..20).map(|_| world.offer(&ann))).await;
    assert!(links.iter().all(|link| *link == links[0]), "{links:?}");
    // Another gateway on the same store has made another one.
    world.links.0.offered.lock().clear();
    let other = world.offer(&ann).await;
    assert_ne!(other, links[0]);
    let of_bob = world.offer(&bob()).await;
    let query = world.begin(&links[0]).await;
    world.complete(&query, BROWSER).await.expect("completed");
    assert!(matches!(world.links.find(&other).await, Err(FollowError::Gone)));
    assert!(world.links.find(&of_bob).await.is_ok());
}

#[tokio::test]
async fn logins_that_hang_at_one_server_delay_no_login_at_another() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    let busy = "up".to_owned();
    let mut permits = Vec::new();
    for _ in 0..MAX_BEGINNING {
        permits.push(world.links.0.clients_beginning.take(&busy).await);
    }
    let other = world.client_named("other", "read");
    let bob = bob();
    let identity = bob.identity().expect("it has one");
    let url = world.links.offer(other.server(), &identity).await.expect("a link");
    let of_other = url.rsplit('/').next().expect("its identifier");
    assert!(world.links.begin(of_other, BROWSER, other.server()).await.is_ok());
    let begun = world.links.begin(&link, BROWSER, world.client("read").server()).await;
    assert!(matches!(begun, Err(FollowError::Busy)), "{begun:?}");
    drop(permits);
    world.begin(&link).await;
}

#[tokio::test]
async fn scopes_that_are_unknown_are_not_asked_for_again() {
    let world = World::refusing("invalid_scope").await;
    let link = world.offer(&ann()).await;
    let query = world.begin(&link).await;
    let id = login_id(&ClientName::parse("up").expect("a good name"), &world.client("read").http);
    let stored = world.links.0.logins.stored(id.of_holder(ann().scope()));
    let previous = UpstreamLogin {
        holder: Some(LoginHolder { session: "earlier".to_owned(), ..LoginHolder::default() }),
        ..login("access")
    };
    assert!(!previous.wanted.is_empty());
    stored.put(previous).await.expect("stored");
    let failed = world.complete(&query, BROWSER).await;
    assert!(matches!(failed, Err(FollowError::Login(LoginError::UnknownScope))), "{failed:?}");
    let present = stored.read().await.expect("read").expect("it stays");
    assert_eq!(present.wanted, "");
}

#[tokio::test]
async fn only_a_token_endpoint_that_does_not_know_the_client_has_it_registered_anew() {
    for (code, is_kept) in
        [("invalid_client", false), ("unauthorized_client", false), ("invalid_grant", true)]
    {
        let world = World::refusing(code).await;
        let name = ClientName::parse("up").expect("a good name");
        let redirect = "http://127.0.0.1:7/airlock/oauth/callback/up";
        let key = RegistrationKey::new(&name, "https://as/register", redirect, &["read"]);
        world.links.0.clients.add(key.clone(), OAuthClientConfig::new("id", redirect));
        let query = world.begin(&world.offer(&ann()).await).await;
        let (state, _) = query.split_once('&').expect("two parameters");
        let denied = format!("{state}&error=unauthorized_client");
        assert!(world.complete(&denied, BROWSER).await.is_err());
        assert!(world.links.0.clients.get(&key).is_some(), "a user can write a redirect");
        let query = world.begin(&world.offer(&ann()).await).await;
        assert!(world.complete(&query, BROWSER).await.is_err());
        assert_eq!(world.links.0.clients.get(&key).is_some(), is_kept, "{code}");
    }
}

/// Returns what a user enters for the header with this name.
fn entered(name: &str) -> [(String, Secret); 1] {
    [(name.to_owned(), Secret::new("value-of-ann"))]
}

#[tokio::test]
async fn headers_are_stored_for_the_holder_of_a_link_and_end_it() {
    let world = World::new().await;
    let http = HttpSettings {
        users: Some(UserCredentials::Headers(vec![http::HeaderName::from_static("x-key")])),
        ..HttpSettings::new("https://mcp.example.com/mcp")
    };
    let client = Client { name: ClientName::parse("up").expect("a good name"), http };
    let ann = ann();
    let url = world.links.offer(client.server(), &ann.identity().expect("it has one")).await;
    let url = url.expect("a link");
    let link = url.rsplit('/').next().expect("its identifier").to_owned();
    let bad = world.links.submit(&link, &entered("x-other"), client.server()).await;
    assert!(matches!(bad, Err(FollowError::Headers(_))), "{bad:?}");
    let begun = world.links.begin(&link, BROWSER, client.server()).await;
    assert!(begun.is_err(), "there is no authorization server");
    let id = world.links.submit(&link, &entered("X-Key"), client.server()).await.expect("stored");
    assert_eq!(id.holder, Some(ann.scope()));
    let again = world.links.submit(&link, &entered("x-key"), client.server()).await;
    assert!(matches!(again, Err(FollowError::Gone)), "{again:?}");
    let stored = world.links.0.logins.stored(id).read().await.expect("read").expect("stored");
    assert_eq!(stored.access_token, r#"{"x-key":"value-of-ann"}"#);
}

#[tokio::test]
async fn a_link_ends_with_the_last_permitted_wrong_key() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    let other = world.offer(&bob()).await;
    for _ in 1..MAX_WRONG_KEYS {
        assert!(world.links.enter_key(&link, false).await.is_ok());
    }
    for _ in 0..MAX_WRONG_KEYS {
        assert!(world.links.enter_key(&link, true).await.is_ok(), "right ones do not count");
    }
    world.begin(&link).await;
    assert!(matches!(world.links.enter_key(&link, false).await, Err(FollowError::Gone)));
    assert!(matches!(world.links.enter_key(&link, true).await, Err(FollowError::Gone)));
    assert!(matches!(world.links.find(&link).await, Err(FollowError::Gone)));
    assert!(world.links.find(&other).await.is_ok());
    assert_ne!(world.offer(&ann()).await, link, "the next call has another link");
}

#[tokio::test]
async fn wrong_keys_that_are_entered_at_two_gateways_at_once_are_all_counted() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    let store = airlock_store::Settings::new(world.home.path().join("a.db"));
    let other = LoginLinks::new(Logins::new(store.into()));
    let gateways = [&world.links, &other];
    let entered = (0..12).map(|number: usize| gateways[number % 2].enter_key(&link, false));
    let entered = join_all(entered).await;
    let kept = entered.iter().filter(|entered| entered.is_ok()).count();
    assert_eq!(kept, MAX_WRONG_KEYS as usize - 1, "{entered:?}");
    assert!(matches!(world.links.find(&link).await, Err(FollowError::Gone)));
}

#[tokio::test]
async fn requests_with_the_key_of_the_holder_that_are_cut_off_do_not_end_a_link() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    for steps in 1..8 {
        for _ in 0..MAX_WRONG_KEYS {
            cut_off(world.links.enter_key(&link, true), steps).await;
        }
    }
    for _ in 1..MAX_WRONG_KEYS {
        assert!(world.links.enter_key(&link, false).await.is_ok(), "none was counted");
    }
    assert!(world.links.enter_key(&link, true).await.is_ok());
}

/// Runs a future for so many steps, and drops it.
async fn cut_off(future: impl Future, steps: usize) {
    let mut future = pin!(future);
    let mut left = steps;
    poll_fn(|context| {
        left -= 1;
        if left == 0 || future.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn without_a_store_no_link_is_found_and_none_is_made() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("a.db");
    let links = LoginLinks::new(Logins::new(airlock_store::Settings::new(&file).into()));
    links.serve_at(Url::parse("http://127.0.0.1:7/").expect("a URL"));
    assert!(matches!(links.find(&new_secret()).await, Err(FollowError::Gone)));
    let client = World::new().await.client("read");
    let completed = links.complete("state=s&code=c", BROWSER, client.server()).await;
    assert!(matches!(completed, Err(FollowError::Gone)));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_link_is_of_no_use_after_the_settings_of_its_client_have_changed() {
    let world = World::new().await;
    let link = world.offer(&ann()).await;
    let changed = world.client("write");
    let begun = world.links.begin(&link, BROWSER, changed.server()).await;
    assert!(matches!(begun, Err(FollowError::Gone)));
    let query = world.begin(&link).await;
    let completed = world.links.complete(&query, BROWSER, changed.server()).await;
    assert!(matches!(completed, Err(FollowError::Gone)));
    let mut shared = world.client("read");
    shared.http.users = None;
    let completed = world.links.complete(&query, BROWSER, shared.server()).await;
    assert!(matches!(completed, Err(FollowError::Gone)), "it is the operator's server now");
    assert!(world.complete(&query, BROWSER).await.is_ok());
}

#[tokio::test]
async fn a_process_that_serves_no_http_offers_no_link() {
    let world = World::new().await;
    let links = LoginLinks::new(world.links.0.logins.clone());
    let ann = ann();
    let identity = ann.identity().expect("it has one");
    let offered = links.offer(world.client("read").server(), &identity).await;
    assert!(matches!(offered, Err(LinkError::NoAddress)));
}

#[test]
fn secrets_differ_and_have_the_form_of_secrets() {
    let [first, second] = [new_secret(), new_secret()];
    assert!(first != second && is_secret(&first) && is_secret(&second));
}
