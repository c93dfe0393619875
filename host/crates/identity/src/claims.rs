//! Checks the claims of a token whose signature is verified.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::{
    json::{self, Object},
    jws::{DeclaredType, Jws},
    part::ResourcePart,
    refusal::{InvalidToken, TokenRefusal},
    settings::VerifierSettings,
    view::view,
};

/// Maximum bytes of `sub` and `client_id`, which are logged. OIDC has the same limit for `sub` (`OpenID`
/// Connect Core 1.0, section 2).
const MAX_NAME_BYTES: usize = 255;
/// Maximum date in a claim, in seconds since 1970: the end of the year 9999. A greater date is an
/// error of the issuer, for example one in milliseconds, and may be no time of this machine.
const MAX_DATE: f64 = 253_402_300_799.0;
/// Claims that ID tokens (the first four) and security events such as logout tokens have, and
/// access tokens do not.
const FOREIGN: [&str; 5] = ["nonce", "at_hash", "c_hash", "s_hash", "events"];

/// Sender of a request, by a verified access token. The token itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// `sub`: the user, or the client if it acts for itself. Unique only within the issuer.
    pub subject: String,
    /// `iss`.
    pub issuer: String,
    /// `client_id`, or `azp` if there is none: the program that acts for the user.
    pub client_id: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// Names what the sender sees, to the caller of this crate: a virtual key, or roles.
    pub view: String,
    /// `exp`. The clock skew is not added.
    pub expires_at: SystemTime,
}

/// Checks all claims of a token with a valid signature.
pub(crate) fn principal(
    jws: &Jws<'_>,
    settings: &VerifierSettings,
    part: Option<&ResourcePart>,
    now: SystemTime,
) -> Result<Principal, TokenRefusal> {
    // The length of the token bounds the tree, to less than 1 MiB, and the issuer has signed it.
    let claims = json::object(&jws.payload, usize::MAX).ok_or(InvalidToken::Malformed)?;
    check_parties(&claims, settings, part)?;
    check_type(&claims, jws.header.declared)?;
    let expires_at = check_times(&claims, settings.clock_skew, now)?;
    let subject = name(&claims, "sub")?.ok_or(InvalidToken::Claim("sub"))?;
    let client_id = match name(&claims, "client_id")? {
        None => name(&claims, "azp")?,
        found => found,
    };
    let scopes = scopes(&claims)?;
    if !settings.scopes.iter().all(|required| scopes.contains(required)) {
        return Err(TokenRefusal::Scope { required: settings.scopes.clone() });
    }
    Ok(Principal {
        subject,
        issuer: settings.issuer.clone(),
        client_id,
        scopes,
        view: view(&settings.views, &claims).ok_or(TokenRefusal::View)?.to_owned(),
        expires_at,
    })
}

/// Checks that the token is from the issuer, and for this gateway or the part of it.
fn check_parties(
    claims: &Object,
    settings: &VerifierSettings,
    part: Option<&ResourcePart>,
) -> Result<(), InvalidToken> {
    if text(claims, "iss")?.ok_or(InvalidToken::Claim("iss"))? != settings.issuer {
        return Err(InvalidToken::Issuer);
    }
    let audiences = texts(claims, "aud")?.ok_or(InvalidToken::Claim("aud"))?;
    if audiences.iter().any(|audience| settings.is_audience(audience, part)) {
        Ok(())
    } else {
        Err(InvalidToken::Audience)
    }
}

/// Checks that the token is an access token, and one that its bearer may use.
fn check_type(claims: &Object, declared: DeclaredType) -> Result<(), InvalidToken> {
    if declared == DeclaredType::Unknown {
        // Keycloak sends `Bearer`, `ID`, `Refresh` or `Logout` here.
        let is_bearer = text(claims, "typ")?.is_none_or(|typ| typ.eq_ignore_ascii_case("bearer"));
        if !is_bearer || FOREIGN.iter().any(|name| claims.contains_key(*name)) {
            return Err(InvalidToken::Type);
        }
    }
    // RFC 7800: the token is bound to a key (of DPoP or a client certificate). As a bearer token,
    // a stolen one would work too.
    if claims.contains_key("cnf") { Err(InvalidToken::Bound) } else { Ok(()) }
}

/// Checks the dates and returns `exp`.
pub(crate) fn check_times(
    claims: &Object,
    skew: Duration,
    now: SystemTime,
) -> Result<SystemTime, InvalidToken> {
    let now = now.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let skew = skew.as_secs_f64();
    let expires = date(claims, "exp")?.ok_or(InvalidToken::Claim("exp"))?;
    // RFC 7519, section 4.1.4: at this time, the token must not be accepted anymore.
    if now >= expires + skew {
        return Err(InvalidToken::Expired);
    }
    for name in ["nbf", "iat"] {
        if date(claims, name)?.is_some_and(|date| date > now + skew) {
            return Err(InvalidToken::Early);
        }
    }
    Ok(UNIX_EPOCH + Duration::from_secs_f64(expires.max(0.0)))
}

/// Returns the scopes: of `scope` (RFC 9068), or else of `scp` (Entra ID, Okta).
fn scopes(claims: &Object) -> Result<Vec<String>, InvalidToken> {
    let found = match texts(claims, "scope")? {
        None => texts(claims, "scp")?,
        found => found,
    };
    let words = found.iter().flatten().flat_map(|text| text.split(' '));
    Ok(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

/// Returns an identifier, which may appear in logs.
pub(crate) fn name(claims: &Object, name: &'static str) -> Result<Option<String>, InvalidToken> {
    let Some(text) = text(claims, name)? else {
        return Ok(None);
    };
    let valid = (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control);
    if valid { Ok(Some(text.to_owned())) } else { Err(InvalidToken::Claim(name)) }
}

/// Returns a claim that must be a text if it exists. A claim of the wrong type is never the same as
/// no claim: else a malformed `nbf` would not be checked.
pub(crate) fn text<'a>(
    claims: &'a Object,
    name: &'static str,
) -> Result<Option<&'a str>, InvalidToken> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(InvalidToken::Claim(name)),
    }
}

/// Returns a claim that must be a text or a list of texts if it exists.
pub(crate) fn texts<'a>(
    claims: &'a Object,
    name: &'static str,
) -> Result<Option<Vec<&'a str>>, InvalidToken> {
    let texts = match claims.get(name) {
        None => return Ok(None),
        Some(Value::String(text)) => Some(vec![text.as_str()]),
        Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
        Some(_) => None,
    };
    texts.map(Some).ok_or(InvalidToken::Claim(name))
}

/// Returns a date that must be a number of seconds since 1970 if it exists.
pub(crate) fn date(claims: &Object, name: &'static str) -> Result<Option<f64>, InvalidToken> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value.as_f64().filter(|seconds| seconds.abs() <= MAX_DATE);
    seconds.map(Some).ok_or(InvalidToken::Claim(name))
}
