//! No text of a token appears in errors, logs and requests.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;

use super::*;

/// The log of one test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn tokens_appear_neither_in_logs_nor_errors_nor_requests() {
    const MARK: &str = "mark-of-a-token";
    let log = Log::default();
    let writer = log.clone();
    // For this thread, which also runs the tasks of the test.
    let _guard = tracing::subscriber::set_default(
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish(),
    );
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk(), json!({ "kty": "oct", "k": MARK })]).await;
    let tokens = [
        signer.token(&claims()),
        signer.token(&claims_with(json!({ "aud": MARK }))),
        signer.token(&claims_with(json!({ "exp": MARK }))),
        signer.token(&claims_with(json!({ "sub": [MARK] }))),
        signer.token_with(json!({ "kid": MARK }), &claims()),
        signer.token_with(json!({ "alg": MARK }), &claims()),
        signer.token_with(json!({ "typ": MARK }), &claims()),
        signer.sign(&format!(r#"{{"alg":"ES256","{MARK}":1,"{MARK}":2}}"#), "{}"),
        format!("{MARK}.{MARK}.{MARK}"),
    ];
    let mut shown = String::new();
    for token in &tokens {
        let outcome = gate.verify(token).await;
        if let Err(refusal) = &outcome {
            let challenge = gate.verifier.challenge(None, Some(refusal));
            shown.extend([refusal.to_string(), format!("{refusal:?} {challenge:?}\n")]);
        }
        shown.extend([format!("{outcome:?}"), format!("{:?}\n", gate.verifier)]);
    }
    shown.push_str(&gate.issuer.heads());
    shown.push_str(&String::from_utf8_lossy(&log.0.lock()));
    assert!(shown.contains("keys of the issuer fetched"), "the log is recorded: {shown}");
    assert!(shown.contains("key of the issuer refused"), "the log is recorded: {shown}");
    assert!(!shown.contains(MARK), "{shown}");
    for part in tokens.iter().flat_map(|token| token.split('.')) {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
}
