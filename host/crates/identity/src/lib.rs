//! The gateway as an OAuth 2.1 resource server: verifies the access tokens of the issuer that the
//! operator configures. An identity provider thus authenticates the senders of requests, and a table
//! of claims decides which tools they see.
//!
//! A [`Verifier`] takes a token and returns a [`Principal`] or a [`TokenRefusal`]. Tokens are JSON Web
//! Tokens with a signature of one of the issuer's published keys. A principal has a view, which the table
//! names. This crate knows neither keys nor tools, and it never
//! sends a token anywhere: a [`Principal`] does not contain the token.
//!
//! A [`LoginClient`] logs in people at an issuer with their browsers, as an OIDC client, and
//! returns their [`IdClaims`].
//!
//! Rules for an access token:
//!
//! | part | rule |
//! |---|---|
//! | form | one compact JWS of at most [`MAX_TOKEN_BYTES`]; no JWE, no duplicate JSON members |
//! | `alg` | RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, `EdDSA` or `Ed25519`; nothing symmetric, never `none` |
//! | key | exactly one key of the issuer fits `kid` and `alg`; RSA keys have 2048 to 8192 bits |
//! | `crit` | refused, whatever it lists |
//! | `typ` | `at+jwt`; `JWT` or none if nothing marks the token as an ID token or logout token |
//! | `iss`, `aud` | the configured issuer, to the byte; a configured audience, or the [part](ResourcePart) of the request |
//! | `exp`, `nbf`, `iat` | `exp` is required; all within the configured clock skew |
//! | `sub` | required, 1 to 255 bytes |
//! | `cnf` | refused: such a token is bound to a key whose possession cannot be checked here |
//! | `scope` | all required scopes (`scp` is read if there is no `scope`) |
//!
//! `typ`: RFC 9068 requires `at+jwt`, but Keycloak, Entra ID and Auth0 send `JWT` for access tokens
//! too, as for ID tokens, so it cannot be the only test. Without `at+jwt`, a token is refused if it
//! has a claim that only other kinds of token have (`nonce`, `at_hash`, `c_hash`, `s_hash`,
//! `events`) or a claim `typ` other than Keycloak's `Bearer`. The audience is checked in every
//! case. The audience of an ID token is the client, not this gateway.
//!
//! Revocation: a token that the issuer revokes stays valid until `exp`, because there is no token
//! introspection (RFC 7662). A key that the issuer removes stops working when the key set is next
//! fetched; see [`Verifier`] for the times.

mod algorithm;
mod challenge;
mod claims;
mod endpoint;
mod fetch;
mod json;
mod jws;
mod key;
mod key_cache;
mod key_set;
mod login;
mod metadata;
mod part;
mod refusal;
mod settings;
mod verified;
mod verifier;
mod view;

pub use self::{
    claims::Principal,
    jws::MAX_TOKEN_BYTES,
    login::{IdClaims, LoginAttempt, LoginClient, LoginError, LoginResponse, LoginSettings},
    part::ResourcePart,
    refusal::{InvalidToken, TokenRefusal},
    settings::{BadSettings, MAX_ENTRIES, MAX_TEXT_BYTES, TokenApis, VerifierSettings},
    verifier::{Verifier, VerifierError},
    view::ViewRule,
};

#[cfg(test)]
mod tests;
