//! Reads a compact JWS (RFC 7515) without trusting it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::{
    algorithm::Algorithm,
    json::{self, Object},
    refusal::InvalidToken,
};

/// Maximum bytes of a token: as many as most servers take in one header. Its signature is checked
/// over all of them.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// Maximum memory of a parsed header, in bytes. A header of [`MAX_TOKEN_BYTES`] could take
/// 150 times its size, and it is parsed before the signature is checked.
const MAX_HEADER_MEMORY: usize = 64 * 1024;

/// A token in its parts, none of which is verified. Not `Debug`: the parts are the token.
pub(crate) struct Jws<'a> {
    pub(crate) header: JwsHeader,
    /// The bytes that the signature covers.
    pub(crate) signed: &'a [u8],
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// The members of a header that matter. All others are ignored, above all `jwk`, `jku`, `x5c` and
/// `x5u`: only the issuer's key set has keys.
pub(crate) struct JwsHeader {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
    pub(crate) declared: DeclaredType,
}

/// Type of token by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeclaredType {
    /// `at+jwt` of RFC 9068.
    AccessToken,
    /// `JWT` or none: any kind of token.
    Unknown,
}

impl<'a> Jws<'a> {
    /// Splits an access token and reads its header.
    pub(crate) fn parse(token: &'a str) -> Result<Self, InvalidToken> {
        Self::parse_within(token, MAX_TOKEN_BYTES)
    }

    /// Splits a token of at most this length, and reads its header.
    pub(crate) fn parse_within(token: &'a str, max_bytes: usize) -> Result<Self, InvalidToken> {
        if token.len() > max_bytes {
            return Err(InvalidToken::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(InvalidToken::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(InvalidToken::Malformed)?;
        // A token with more than three parts has a dot in its payload, which is not base64url.
        Ok(Self {
            header: JwsHeader::parse(&decode(header)?)?,
            signed: signed.as_bytes(),
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }
}

impl JwsHeader {
    fn parse(text: &[u8]) -> Result<Self, InvalidToken> {
        let header = json::object(text, MAX_HEADER_MEMORY).ok_or(InvalidToken::Malformed)?;
        // RFC 7515, section 4.1.11: an extension that is not understood must be refused. None is.
        if header.contains_key("crit") {
            return Err(InvalidToken::Critical);
        }
        let algorithm = member(&header, "alg")?.and_then(Algorithm::from_name);
        Ok(Self {
            algorithm: algorithm.ok_or(InvalidToken::Algorithm)?,
            kid: member(&header, "kid")?.map(str::to_owned),
            declared: declared_type(member(&header, "typ")?)?,
        })
    }
}

fn declared_type(typ: Option<&str>) -> Result<DeclaredType, InvalidToken> {
    let Some(typ) = typ else {
        return Ok(DeclaredType::Unknown);
    };
    // RFC 7515, section 4.1.9: media types, whose prefix may be left out.
    let typ = typ.to_ascii_lowercase();
    match typ.strip_prefix("application/").unwrap_or(&typ) {
        "at+jwt" => Ok(DeclaredType::AccessToken),
        "jwt" => Ok(DeclaredType::Unknown),
        _ => Err(InvalidToken::Type),
    }
}

/// Returns a member that must be a string if it exists.
fn member<'a>(header: &'a Object, name: &str) -> Result<Option<&'a str>, InvalidToken> {
    match header.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(InvalidToken::Malformed),
    }
}

fn decode(part: &str) -> Result<Vec<u8>, InvalidToken> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidToken::Malformed)
}
