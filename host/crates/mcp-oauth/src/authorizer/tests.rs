//! Tests with a store and an authorization server, and a clock that the tests set.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use airlock_test_http::{Answer, Server, ok, says};
use futures_util::future::join_all;
use serde_json::json;

use super::{
    super::{
        logins::{Logins, StoredLogin, login_id},
        tokens::tests::login,
    },
    renewal::CLAIM,
    *,
};
use airlock_store::login::{LoginHolder, RefreshClaim};

/// Life of a token, in seconds.
const LIFE: u64 = 3_600;
/// Time at which the clock starts, in seconds since 1970.
const START: u64 = 1_000_000;

/// An authorization server and a store.
struct World {
    issuer: Server,
    logins: Logins,
    home: tempfile::TempDir,
    seconds: Arc<AtomicU64>,
    /// Holder of the login; `None` for the operator's.
    holder: Option<[u8; 32]>,
}

impl World {
    /// Creates the world, with a login that is as old as the clock.
    async fn new(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let world = Self::without_login(answer, None).await;
        world.log_in("first").await;
        world
    }

    /// Creates the world in which a holder has logged in.
    async fn of_holder(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let world = Self::without_login(answer, Some([7; 32])).await;
        world.log_in("first").await;
        world
    }

    async fn without_login(
        answer: impl Fn(usize) -> Answer + Send + Sync + 'static,
        holder: Option<[u8; 32]>,
    ) -> Self {
        let asked = AtomicUsize::new(0);
        let issuer = Server::start(move |_| answer(asked.fetch_add(1, Ordering::Relaxed))).await;
        let home = tempfile::tempdir().expect("a directory");
        let logins = Logins::new(airlock_store::Settings::new(home.path().join("a.db")).into());
        Self { issuer, logins, home, seconds: Arc::new(AtomicU64::new(START)), holder }
    }

    fn http(&self) -> HttpSettings {
        HttpSettings::new(self.issuer.url("127.0.0.1", "/mcp"))
    }

    fn stored(&self) -> StoredLogin {
        let mut id = login_id(&name(), &self.http());
        id.holder = self.holder;
        self.logins.stored(id)
    }

    async fn log_in(&self, token: &str) {
        let holder = self.holder.map(|_| LoginHolder {
            session: format!("session-of-{token}"),
            key_name: "ann".to_owned(),
            ..LoginHolder::default()
        });
        let login = UpstreamLogin {
            holder,
            refresh_token: Some(format!("refresh-of-{token}")),
            token_endpoint: self.issuer.url("127.0.0.1", "/token"),
            obtained_ms: i64::try_from(START * 1_000).expect("it fits"),
            expires_ms: Some(i64::try_from((START + LIFE) * 1_000).expect("it fits")),
            wanted: String::new(),
            ..login(token)
        };
        self.stored().put(login).await.expect("stored");
    }

    /// Creates an authorizer with a store of its own, as another process has.
    fn authorizer(&self) -> Authorizer {
        let seconds = self.seconds.clone();
        let clock: Clock = Arc::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed))
        });
        let logins =
            Logins::new(airlock_store::Settings::new(self.home.path().join("a.db")).into());
        let mut id = login_id(&name(), &self.http());
        id.holder = self.holder;
        let stored = logins.stored(id);
        Authorizer::with_clock(&name(), &self.http(), stored, Arc::default(), clock)
            .expect("good settings")
    }

    fn pass(&self, seconds: u64) {
        self.seconds.store(START + seconds, Ordering::Relaxed);
    }

    fn refreshes(&self) -> usize {
        self.issuer.requests().len()
    }
}

/// Waits until a refresh in the background has ended.
async fn settled(authorizer: &Authorizer) {
    drop(authorizer.turn().await.expect("a turn"));
}

fn name() -> ClientName {
    ClientName::parse("up").expect("a good name")
}

fn tokens(number: usize) -> Answer {
    let tokens = json!({
        "access_token": format!("access-{number}"), "refresh_token": format!("refresh-{number}"),
        "token_type": "Bearer", "expires_in": LIFE,
    });
    ok(&tokens.to_string())
}

fn refused(_: usize) -> Answer {
    says("400 Bad Request", "", r#"{"error": "invalid_grant"}"#)
}

/// Returns the token or the error.
fn text(found: Result<Option<Bearer>, AuthorizationError>) -> String {
    match found {
        Ok(Some(bearer)) => bearer.token().to_owned(),
        Ok(None) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_token_is_refreshed_once_for_all_requests_before_it_expires() {
    let world = World::new(tokens).await;
    let authorizer = world.authorizer();
    world.pass(LIFE - 61);
    assert_eq!(text(authorizer.bearer().await), "first");
    world.pass(LIFE - 60);
    let found = join_all((0..32).map(|_| authorizer.bearer())).await;
    assert!(found.into_iter().all(|found| matches!(&*text(found), "first" | "access-0")));
    settled(&authorizer).await;
    assert_eq!(text(authorizer.bearer().await), "access-0");
    assert_eq!(world.refreshes(), 1);
    let sent = world.issuer.requests().remove(0);
    assert!(sent.contains("refresh_token=refresh-of-first&"), "{sent}");
    assert_eq!(text(world.authorizer().bearer().await), "access-0", "another process");
}

#[tokio::test]
async fn processes_that_share_a_login_refresh_it_once() {
    let world = World::new(tokens).await;
    world.pass(LIFE);
    let others: Vec<_> = (0..4).map(|_| world.authorizer()).collect();
    let found = join_all(others.iter().map(Authorizer::bearer)).await;
    assert!(found.into_iter().all(|found| text(found) == "access-0"));
    assert_eq!(world.refreshes(), 1);
}

#[tokio::test]
async fn a_refresh_that_is_refused_uses_the_login_that_replaced_it_meanwhile() {
    let world = World::new(refused).await;
    let authorizer = world.authorizer();
    world.pass(LIFE);
    // The operator logs in between the refusal and the look into the store.
    let stored = world.stored();
    let claimed = stored.claim("first", CLAIM).await.expect("written");
    let RefreshClaim::Claimed(login) = claimed else { panic!("{claimed:?}") };
    world.log_in("second").await;
    let found = authorizer.source.refresh(login).await.expect("the other login");
    assert_eq!(found.access_token, "second");
}

#[tokio::test]
async fn a_refused_refresh_names_the_command_and_is_not_repeated_until_a_login() {
    let world = World::new(refused).await;
    let authorizer = world.authorizer();
    world.pass(LIFE - 1);
    assert_eq!(text(authorizer.bearer().await), "first", "it is good for another second");
    settled(&authorizer).await;
    world.pass(LIFE);
    for _ in 0..3 {
        assert_eq!(
            text(authorizer.bearer().await),
            "the authorization server does not renew the login (invalid_grant); run `airlock upstream login up`"
        );
    }
    assert_eq!(world.refreshes(), 1);
    world.pass(1);
    world.log_in("second").await;
    tokio::time::timeout(Duration::from_secs(20), authorizer.changed()).await.expect("noticed");
    assert_eq!(text(authorizer.replace(None).await), "second");
}

#[tokio::test]
async fn a_failure_that_passes_leaves_the_token_in_use_until_it_expires() {
    let world =
        World::new(|number| if number == 0 { says("503 Down", "", "") } else { tokens(number) })
            .await;
    let authorizer = world.authorizer();
    world.pass(LIFE - 1);
    assert_eq!(text(authorizer.bearer().await), "first");
    settled(&authorizer).await;
    world.pass(LIFE);
    assert_eq!(
        text(authorizer.bearer().await),
        "the access token could not be refreshed a moment ago"
    );
    assert_eq!(world.refreshes(), 1);
    assert_eq!(text(world.authorizer().bearer().await), "access-1", "the claim has ended");
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_then_not_sent_for_a_minute() {
    let world = World::new(tokens).await;
    let authorizer = world.authorizer();
    let first = authorizer.bearer().await.expect("a token");
    let found = join_all((0..8).map(|_| authorizer.replace(first.as_ref()))).await;
    assert!(found.into_iter().all(|found| text(found) == "access-0"));
    assert_eq!(world.refreshes(), 1);
    let second = authorizer.bearer().await.expect("a token");
    let replaced = authorizer.replace(second.as_ref()).await;
    assert!(matches!(replaced, Err(AuthorizationError::NoOther)), "{replaced:?}");
    let declined = authorizer.refused_twice(second.as_ref(), false);
    insta::assert_snapshot!(declined.to_string(), @"the server refuses this request with the token of the login; if it refuses others too, run `airlock upstream login up`");
    assert_eq!(text(authorizer.bearer().await), "access-0", "a call concerns no other");
    let error = authorizer.refused_twice(second.as_ref(), true);
    insta::assert_snapshot!(error.to_string(), @"the server refuses the token of the login; run `airlock upstream login up`");
    assert_eq!(text(authorizer.bearer().await), error.to_string());
    assert_eq!(world.refreshes(), 1);
}

#[tokio::test]
async fn scopes_that_the_server_asks_for_are_stored_for_the_next_login() {
    let world = World::new(tokens).await;
    let authorizer = world.authorizer();
    let first = authorizer.bearer().await.expect("a token");
    for _ in 0..2 {
        let widened = authorizer.widen(first.as_ref(), "write".to_owned()).await;
        assert_eq!(
            text(widened),
            "the server asks for a login with more rights: \"write\"; run `airlock upstream login up`"
        );
    }
    let stored = world.stored().read().await.expect("read").expect("a login");
    assert_eq!((&*stored.wanted, world.refreshes()), ("write", 0));
    world.log_in("second").await;
    assert_eq!(text(authorizer.widen(first.as_ref(), "write".to_owned()).await), "second");
}

#[tokio::test]
async fn scopes_of_the_settings_are_not_extended_by_the_server() {
    let world = World::new(tokens).await;
    let mut source = Arc::into_inner(world.authorizer().source).expect("not shared");
    source.permitted = vec!["read".to_owned()];
    let login = Arc::new(world.stored().read().await.expect("read").expect("a login"));
    let widened = source.widen(RefusedRequest::Token(login), "admin read".to_owned()).await;
    insta::assert_snapshot!(text(widened), @r#"the server asks for more rights than `oauth_config.scopes` permits: "admin", "read"; if it shall have them, add them and run `airlock upstream login up`"#);
    let stored = world.stored().read().await.expect("read").expect("a login");
    assert_eq!(stored.wanted, "");
}

#[tokio::test]
async fn a_slow_authorization_server_delays_no_request_while_the_token_is_good() {
    // It never answers.
    let world = World::new(|_| Answer::Drips).await;
    let authorizer = world.authorizer();
    world.pass(LIFE - 1);
    for _ in 0..3 {
        assert_eq!(text(authorizer.bearer().await), "first");
    }
    assert_eq!(authorizer.turn.available_permits(), 0, "the refresh goes on");
}

#[tokio::test]
async fn tokens_that_were_not_stored_are_used_and_stored_later() {
    let world = World::new(tokens).await;
    let unstored = login("unstored");
    let authorizer = world.authorizer();
    authorizer.source.state.keep_unstored("first", unstored.clone());
    let due = authorizer.source.renew(Arc::new(unstored.clone())).await;
    assert!(matches!(due, Err(AuthorizationError::Unstored)), "{due:?}");
    let read = authorizer.source.read().await.expect("read").expect("a login");
    assert_eq!((&*read.access_token, authorizer.source.state.unstored()), ("unstored", None));
    let stored = world.stored().read().await.expect("read");
    assert_eq!(stored.map(|login| login.access_token).as_deref(), Some("unstored"));
    // Not if the operator has logged in meanwhile.
    authorizer.source.state.keep_unstored("first", unstored);
    world.log_in("second").await;
    let read = authorizer.source.read().await.expect("read").expect("a login");
    assert_eq!((&*read.access_token, authorizer.source.state.unstored()), ("second", None));
}

#[tokio::test]
async fn a_login_belongs_to_the_settings_with_which_it_was_made() {
    let world = World::new(tokens).await;
    assert!(has_login(&world, "").await && !has_login(&world, "a").await);
    let http = with_client_id(&world, "a");
    world.logins.stored(login_id(&name(), &http)).put(login("a")).await.expect("stored");
    assert!(has_login(&world, "a").await && !has_login(&world, "b").await);
}

fn with_client_id(world: &World, id: &str) -> HttpSettings {
    let client_id = Some(id.to_owned()).filter(|id| !id.is_empty());
    let oauth = Oauth { client_id, ..Oauth::default() };
    HttpSettings { oauth: Some(oauth), ..world.http() }
}

async fn has_login(world: &World, client_id: &str) -> bool {
    let http = with_client_id(world, client_id);
    world.logins.stored(login_id(&name(), &http)).read().await.expect("read").is_some()
}

#[tokio::test]
async fn without_a_login_requests_have_no_token_until_the_server_asks_for_one() {
    let world = World::new(tokens).await;
    assert!(world.logins.remove(&name()).await.expect("removed"));
    let authorizer = world.authorizer();
    assert_eq!(text(authorizer.bearer().await), "none");
    insta::assert_snapshot!(text(authorizer.replace(None).await), @"it needs a login; run `airlock upstream login up`");
}

#[tokio::test]
async fn tokens_that_live_for_seconds_are_refreshed_after_half_their_life_and_not_at_once() {
    let world = World::new(tokens).await;
    let source = &world.authorizer().source;
    for (life, now, is_due) in [
        (0, 0, false),
        (0, 1, true),
        (10, 4, false),
        (10, 5, true),
        (300, 239, false),
        (300, 240, true),
    ] {
        world.pass(now);
        assert_eq!(source.is_due(&lives(life)), is_due, "{life} {now}");
    }
    assert!(!source.is_due(&UpstreamLogin { expires_ms: None, ..login("t") }));
}

/// Returns a login that lives for so many seconds from the start of the clock.
fn lives(seconds: i64) -> UpstreamLogin {
    let obtained_ms = i64::try_from(START * 1_000).expect("it fits");
    let expires_ms = Some(obtained_ms + seconds * 1_000);
    UpstreamLogin { obtained_ms, expires_ms, ..login("t") }
}

#[tokio::test]
async fn tokens_are_refreshed_to_the_end_if_the_request_is_given_up() {
    let world = World::new(tokens).await;
    let authorizer = world.authorizer();
    world.pass(LIFE);
    {
        let mut asking = std::pin::pin!(authorizer.bearer());
        // The first poll starts the task.
        let polled = futures_util::poll!(&mut asking);
        assert!(polled.is_pending());
    }
    // The next request waits for the turn of the one that was given up.
    assert_eq!(text(authorizer.bearer().await), "access-0");
    assert_eq!(world.refreshes(), 1);
}

#[tokio::test]
async fn without_a_login_of_the_holder_no_request_is_sent() {
    let world = World::without_login(tokens, Some([7; 32])).await;
    insta::assert_snapshot!(text(world.authorizer().bearer().await), @"it needs a login; its user has to log in");
    let operators = World::without_login(tokens, None).await;
    assert_eq!(text(operators.authorizer().bearer().await), "none");
}

#[tokio::test]
async fn a_connection_is_not_used_with_another_login_of_its_holder() {
    let world = World::of_holder(tokens).await;
    let [first, later] = [world.authorizer(), world.authorizer()];
    assert_eq!(text(first.bearer().await), "first");
    world.pass(LIFE);
    assert_eq!(text(first.bearer().await), "access-0", "renewed tokens are of the same login");
    world.log_in("second").await;
    let replaced = first.replace(first.bearer().await.expect("known").as_ref()).await;
    insta::assert_snapshot!(text(replaced), @"it needs a login; its user has to log in");
    assert_eq!(text(later.bearer().await), "access-1", "a new connection has the new login");
}

#[tokio::test]
async fn a_holder_is_not_sent_to_log_in_for_what_no_login_mends() {
    let source = World::of_holder(tokens).await.authorizer().source;
    let declined = source.needs(LoginReason::Declined);
    assert!(matches!(declined, super::AuthorizationError::Declined), "{declined}");
    let limited = source.needs(LoginReason::Limited(": \"write\"".to_owned()));
    insta::assert_snapshot!(limited, @r#"the server asks for more rights than `oauth_config.scopes` permits: "write""#);
    let scopes = source.needs(LoginReason::Scopes(String::new()));
    assert!(matches!(scopes, super::AuthorizationError::Login(_)), "{scopes}");
}

/// Refuses the client once.
fn client_refused_first(number: usize) -> Answer {
    match number {
        0 => says("401 Unauthorized", "", r#"{"error": "invalid_client"}"#),
        _ => tokens(number),
    }
}

#[tokio::test]
async fn a_client_that_is_refused_costs_no_holder_its_login() {
    let world = World::of_holder(client_refused_first).await;
    let authorizer = world.authorizer();
    world.pass(LIFE);
    for _ in 0..3 {
        assert_eq!(
            text(authorizer.bearer().await),
            "the authorization server does not renew the login (invalid_client); its user has to log in"
        );
    }
    assert_eq!(world.refreshes(), 1, "not asked again at once");
    let kept = world.stored().read().await.expect("read").expect("it stays");
    assert_eq!(kept.access_token, "first");
    assert_eq!(text(world.authorizer().bearer().await), "access-1", "another process renews it");
}

#[tokio::test]
async fn a_client_of_the_settings_that_is_refused_is_reported_as_the_operators_matter() {
    let world =
        World::of_holder(|_| says("400 Bad", "", r#"{"error": "unauthorized_client"}"#)).await;
    let authorizer = world.authorizer();
    let Authorizer { source, turn } = authorizer;
    let mut source = Arc::into_inner(source).expect("it has no request");
    source.registers = false;
    let authorizer = Authorizer { source: Arc::new(source), turn };
    world.pass(LIFE);
    insta::assert_snapshot!(text(authorizer.bearer().await), @"the authorization server refuses the client of the gateway (unauthorized_client); the operator has to correct `oauth_config`");
}

#[tokio::test]
async fn connections_of_one_holder_share_the_pause_after_a_failure() {
    let world = World::of_holder(|_| says("503 Down", "", "")).await;
    world.pass(LIFE);
    for (attempt, asked) in [(1, 1), (2, 1)] {
        let clock = world.authorizer().source.clock.clone();
        let authorizer =
            Authorizer::with_clock(&name(), &world.http(), world.stored(), Arc::default(), clock);
        assert!(authorizer.expect("good settings").bearer().await.is_err(), "{attempt}");
        assert_eq!(world.refreshes(), asked, "{attempt}");
    }
}

#[tokio::test]
async fn the_tokens_of_a_holder_whose_renewal_is_refused_are_removed() {
    let world = World::of_holder(refused).await;
    let authorizer = world.authorizer();
    world.pass(LIFE);
    insta::assert_snapshot!(text(authorizer.bearer().await), @"the authorization server does not renew the login (invalid_grant); its user has to log in");
    assert_eq!(world.stored().read().await.expect("read"), None);
    assert_eq!(world.refreshes(), 1);
    insta::assert_snapshot!(text(world.authorizer().bearer().await), @"it needs a login; its user has to log in");
    let [listed] = &world.logins.of_users(None, 0).await.expect("read")[..] else { panic!("one") };
    assert!(!listed.is_active);
}
