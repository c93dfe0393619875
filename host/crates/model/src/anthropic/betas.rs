//! Names of beta features, which Anthropic's SDKs take as a member and the HTTP API as a header.

use serde_json::Value;

use airlock_conversation::{
    Object,
    read::{Path, Untranslatable},
};

const BETAS: &str = "betas";

/// Removes `betas` from a request and returns it as the value of the header `anthropic-beta`.
pub(super) fn take(request: &mut Object) -> Result<Option<String>, Untranslatable> {
    let Some(betas) = request.shift_remove(BETAS).filter(|betas| !betas.is_null()) else {
        return Ok(None);
    };
    let names: Option<Vec<_>> =
        betas.as_array().and_then(|betas| betas.iter().map(beta_name).collect());
    match names {
        Some(names) if names.is_empty() => Ok(None),
        Some(names) => Ok(Some(names.join(","))),
        None => {
            let rule = "it must be a list of names of beta features.";
            Err(Untranslatable::invalid(&Path::Root.member(BETAS), rule))
        }
    }
}

fn beta_name(beta: &Value) -> Option<&str> {
    let name = beta.as_str().filter(|name| !name.is_empty())?;
    let is_valid = name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    is_valid.then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn betas_become_the_value_of_a_header() {
        for (betas, header) in [
            (json!(null), Ok(None)),
            (json!([]), Ok(None)),
            (json!(["a-2025-01-01"]), Ok(Some("a-2025-01-01"))),
            (json!(["a-1", "b_2.0"]), Ok(Some("a-1,b_2.0"))),
            (json!("a"), Err("betas")),
            (json!(["a\r\nx-evil: 1"]), Err("betas")),
            (json!(["a,b"]), Err("betas")),
            (json!([""]), Err("betas")),
            (json!([1]), Err("betas")),
        ] {
            let mut body = airlock_json::object(json!({"betas": betas}));
            let found = take(&mut body);
            let found =
                found.as_ref().map(Option::as_deref).map_err(|refused| refused.param.as_str());
            assert_eq!(found, header, "{betas}");
            assert!(body.is_empty());
        }
    }
}
