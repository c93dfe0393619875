//! The wait for a login.

use tokio::time::timeout;

use super::*;
use airlock_core::tool::ClientName;
use airlock_mcp_client::{HttpServer, HttpTransport};
use airlock_mcp_oauth::{HttpSettings, Oauth, UserCredentials};
use airlock_store::{
    LazyDatabase,
    login::{LoginHolder, UpstreamLogin},
};

fn login(session: &str) -> UpstreamLogin {
    UpstreamLogin {
        holder: Some(LoginHolder { session: session.to_owned(), ..LoginHolder::default() }),
        authentication: "none".to_owned(),
        access_token: format!("token-of-{session}"),
        ..UpstreamLogin::default()
    }
}

#[tokio::test]
async fn a_refused_login_ends_no_wait_and_a_later_one_does() {
    let home = tempfile::tempdir().expect("a directory");
    let database = LazyDatabase::new(airlock_store::Settings::new(home.path().join("a.db")));
    let http = HttpSettings {
        oauth: Some(Oauth::default()),
        users: Some(UserCredentials::Login),
        ..HttpSettings::new("https://mcp.example.com/mcp")
    };
    let name = ClientName::parse("up").expect("a good name");
    let server = HttpServer { transport: HttpTransport::Streamable, settings: http };
    let settings = Settings::new(name, server);
    let accounts = Accounts::new(Logins::new(database.clone()));
    let users = Users::new(&settings, &accounts, &Handle::current()).expect("it acts for users");
    let ann = Tenant::of_key([1; 32], "ann");
    let id = Credentials::login_of(&settings, ann.scope()).expect("it has OAuth");
    let stored = database.open().await.expect("it opens");
    stored.put_upstream_login(&id, login("refused")).await.expect("written");
    assert_eq!(users.session(&ann).await.as_deref(), Some("refused"));
    let minute = Duration::from_mins(1);
    let waiting = timeout(LOGIN_POLL * 2, users.logged_in(&ann, Some("refused"), minute)).await;
    assert!(waiting.is_err(), "the refused login is still there");
    users.logged_in(&ann, None, minute).await;
    stored.put_upstream_login(&id, login("later")).await.expect("written");
    users.logged_in(&ann, Some("refused"), minute).await;
}
