//! Tests with real signatures and an issuer on the loopback interface.

mod cache;
mod claims;
mod discovery;
mod hostile_keys;
mod issuer;
mod login;
mod metadata;
mod secrecy;
mod settings;
mod signatures;
mod signer;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use self::{
    issuer::{Issuer, Page},
    signer::Signer,
};
use crate::{InvalidToken, Principal, TokenRefusal, Verifier, VerifierSettings, ViewRule};

/// Time of the tests, in seconds since 1970.
const NOW: u64 = 1_900_000_000;
const ISSUER: &str = "https://idp.example.com";
const RESOURCE: &str = "https://gw.example.com/mcp";

/// A verifier, with the issuer whose keys it uses.
struct Gate {
    issuer: Issuer,
    verifier: Verifier,
}

impl Gate {
    /// Starts an issuer with a key set.
    async fn new(keys: &[Value]) -> Self {
        Self::with(Page::keys(keys), |_| {}).await
    }

    /// Starts an issuer with a page for the key set, and changes the settings.
    async fn with(keys: Page, change: impl FnOnce(&mut VerifierSettings)) -> Self {
        let issuer = Issuer::start([("/keys", keys)]).await;
        let mut settings = settings();
        settings.jwks_uri = Some(issuer.url("/keys"));
        change(&mut settings);
        Self { verifier: verifier(settings), issuer }
    }

    async fn verify(&self, token: &str) -> Result<Principal, TokenRefusal> {
        self.verify_at(token, NOW).await
    }

    async fn verify_at(&self, token: &str, seconds: u64) -> Result<Principal, TokenRefusal> {
        self.verifier.verify_at(token, None, UNIX_EPOCH + Duration::from_secs(seconds)).await
    }

    /// Verifies a token that must be refused as invalid.
    async fn invalid(&self, token: &str) -> InvalidToken {
        match self.verify(token).await {
            Err(TokenRefusal::Invalid(invalid)) => invalid,
            other => panic!("not refused as invalid: {other:?}"),
        }
    }
}

fn settings() -> VerifierSettings {
    VerifierSettings::new(ISSUER, RESOURCE, [rule("admins", "all"), rule("staff", "some")])
}

fn rule(value: &str, view: &str) -> ViewRule {
    ViewRule { claim: "groups".to_owned(), value: value.to_owned(), view: view.to_owned() }
}

fn verifier(settings: VerifierSettings) -> Verifier {
    // It fails if another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Verifier::new(settings, reqwest::Client::builder().no_proxy()).expect("good settings")
}

/// Claims that are accepted.
fn claims() -> Value {
    json!({
        "iss": ISSUER,
        "aud": RESOURCE,
        "sub": "ann",
        "client_id": "editor",
        "scope": "tools:read tools:call",
        "groups": ["staff"],
        "iat": NOW - 60,
        "exp": NOW + 600,
    })
}

/// Returns the accepted claims with others added, or removed if they are null.
fn claims_with(changes: Value) -> Value {
    merged(claims(), changes)
}

/// Returns an object with other members added, or removed if they are null.
fn merged(mut object: Value, changes: Value) -> Value {
    let members = object.as_object_mut().expect("an object");
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (name, value) in changes {
        if value.is_null() {
            members.remove(&name);
        } else {
            members.insert(name, value);
        }
    }
    object
}

/// Moves the clock of the runtime, not that of the claims. Time is paused only for this moment,
/// because paused time would run ahead whenever a test waits for a socket.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Lets other tasks run until a condition holds. Panics if it does not within a minute.
async fn until(condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), poll).await.expect("the condition holds in time");
}

#[tokio::test]
async fn a_valid_token_names_its_sender_and_their_view() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let principal = gate.verify(&signer.token(&claims())).await.expect("a valid token");
    assert_eq!(
        principal,
        Principal {
            subject: "ann".to_owned(),
            issuer: ISSUER.to_owned(),
            client_id: Some("editor".to_owned()),
            scopes: vec!["tools:read".to_owned(), "tools:call".to_owned()],
            view: "some".to_owned(),
            expires_at: UNIX_EPOCH + Duration::from_secs(NOW + 600),
        }
    );
}

#[tokio::test]
async fn the_public_function_uses_the_clock_of_the_system() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(gate.verifier.verify(&token_until(&signer, now + 600), None).await.is_ok());
    assert_eq!(
        gate.verifier.verify(&token_until(&signer, now - 600), None).await,
        Err(TokenRefusal::Invalid(InvalidToken::Expired))
    );
}

fn token_until(signer: &Signer, exp: u64) -> String {
    signer.token(&claims_with(json!({ "iat": null, "exp": exp })))
}
