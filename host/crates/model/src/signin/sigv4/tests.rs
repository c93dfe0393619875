use std::time::{Duration, UNIX_EPOCH};

use http::Request;

use super::*;

const STAMP: &str = "20150830T123600Z";
const HOST: (&str, &str) = ("host", "example.amazonaws.com");
const TIME: (&str, &str) = ("x-amz-date", STAMP);
const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

/// The key of AWS's test suite for signatures of version 4.
fn signer(service: &'static str) -> RequestSigner {
    RequestSigner {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        region: "us-east-1".to_owned(),
        service,
    }
}

/// Checks the signature of one request of the test suite.
fn check(line: &str, headers: &[(&str, &str)], body: &str, signature: &str) {
    let (method, target) = line.split_once(' ').expect("a method");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = SignedParts { method, path, query, headers, body: body.as_bytes() };
    let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        signer("service").authorization(STAMP, &request),
        format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={}, Signature={signature}",
            names.join(";")
        ),
        "{line}"
    );
}

#[test]
fn the_signatures_are_those_of_the_published_test_suite() {
    // The tests of targets: post-vanilla, get-unreserved, get-space, get-utf8 and
    // get-vanilla-query-order-key-case.
    for (line, signature) in [
        ("POST /", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET /-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
        ("GET /example space/", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"),
        ("GET /ሴ", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
        (
            "GET /?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ] {
        check(line, &[HOST, TIME], "", signature);
    }
    // get-header-value-trim
    check(
        "GET /",
        &[HOST, ("my-header1", " value1"), ("my-header2", " \"a   b   c\""), TIME],
        "",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    );
    // post-x-www-form-urlencoded
    check(
        "POST /",
        &[("content-type", "application/x-www-form-urlencoded"), HOST, TIME],
        "Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    );
    // post-sts-header-before
    check(
        "POST /",
        &[HOST, TIME, ("x-amz-security-token", TOKEN)],
        "",
        "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
    );
}

#[test]
fn the_signature_is_that_of_the_documented_example() {
    let request = SignedParts {
        method: "GET",
        path: "/",
        query: "Action=ListUsers&Version=2010-05-08",
        headers: &[
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("host", "iam.amazonaws.com"),
            TIME,
        ],
        body: b"",
    };
    let authorization = signer("iam").authorization(STAMP, &request);
    let signature = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
    assert!(authorization.ends_with(&format!("Signature={signature}")), "{authorization}");
}

#[test]
fn the_finished_request_is_signed() {
    let token = Secret::new(TOKEN);
    let key = AccessKey::new(
        "us-east-1",
        &Secret::new("AKIDEXAMPLE"),
        &Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        Some(&token),
    )
    .expect("a good key");
    let request =
        Request::post("https://bedrock-runtime.us-east-1.amazonaws.com:443/model/a%3A0/invoke")
            .header("content-type", "application/json")
            .header("x-other", "y");
    let (mut head, ()) = request.body(()).expect("a request").into_parts();
    let time = UNIX_EPOCH + Duration::from_mins(24_015_636);
    key.sign_at(time, &mut head, b"{}");
    let header = |name: &str| head.headers[name].to_str().expect("text");
    assert_eq!(header("x-amz-date"), STAMP);
    assert_eq!(header("host"), "bedrock-runtime.us-east-1.amazonaws.com");
    assert_eq!(header("x-amz-security-token"), TOKEN);
    // AWS encodes the path of the request once more.
    let expected = SignedParts {
        method: "POST",
        path: "/model/a%3A0/invoke",
        query: "",
        headers: &[
            ("content-type", "application/json"),
            ("host", "bedrock-runtime.us-east-1.amazonaws.com"),
            TIME,
            ("x-amz-security-token", TOKEN),
        ],
        body: b"{}",
    };
    assert!(expected.canonical().starts_with("POST\n/model/a%253A0/invoke\n\ncontent-type:"));
    assert_eq!(header("authorization"), signer(BEDROCK).authorization(STAMP, &expected));
    assert!(!format!("{key:?}").contains("wJalr"));
}

#[test]
fn a_key_that_cannot_be_sent_is_refused() {
    let secret = Secret::new("s");
    for (region, access_key, token) in [
        ("r", "", None),
        ("r", "A B", None),
        ("r\n", "A", None),
        ("r", "A", Some("a\nb")),
        ("r", "A", Some("ü")),
    ] {
        let token = token.map(Secret::new);
        let key = AccessKey::new(region, &Secret::new(access_key), &secret, token.as_ref());
        assert!(key.is_none(), "{region:?} {access_key:?}");
    }
}

#[test]
fn the_host_has_no_default_port() {
    for (uri, expected) in [
        ("https://h:443/", "h"),
        ("https://h:80/", "h:80"),
        ("http://h:80/", "h"),
        ("http://h:8080/", "h:8080"),
    ] {
        assert_eq!(host(&uri.parse().expect("a URI")), expected);
    }
}
