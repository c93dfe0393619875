use futures_util::FutureExt as _;

use super::*;

const VALUE: &str = "s3cret/&value";

fn credential(injection: Injection) -> Credential {
    Credential::new(
        "token",
        Secret::new(VALUE),
        injection,
        vec!["https://x.com GET /**".parse().unwrap()],
    )
    .unwrap()
}

#[test]
fn an_invalid_credential_is_reported_without_its_value() {
    insta::assert_snapshot!(header_error("a b", ""), @r#"found the header "a b", expected a header's name such as authorization that is not the host's own to set"#);
    insta::assert_snapshot!(header_error("Host", ""), @r#"found the header "Host", expected a header's name such as authorization that is not the host's own to set"#);
    insta::assert_snapshot!(header_error("x-key", "a\n"), @r#"found the prefix "a\n", expected printable ASCII such as "Bearer ""#);
    for prefix in ["NTLM ", " negotiate ", "Negotiate"] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(header_error("Authorization", prefix), @"found the scheme NTLM or Negotiate, expected one that is for a single request such as Bearer");
        }
    }
    for (prefix, value, fine) in
        [("", "NTLM abcd", false), ("Nego", "tiate abcd", false), ("Bearer ", "NTLM", true)]
    {
        let injection = Injection::header("authorization", prefix).unwrap();
        assert_eq!(
            Credential::new("token", Secret::new(value), injection, Vec::new()).is_ok(),
            fine,
            "{prefix}{value}"
        );
    }
    insta::assert_snapshot!(Injection::query("").unwrap_err(), @"found an empty query parameter, expected a name such as api_key");
    for bad in ["", "a\r\nb", "é", " a", "a ", &"a".repeat(MAX_VALUE_BYTES + 1)] {
        let error = Credential::new(
            "token",
            Secret::new(bad),
            Injection::query("key").unwrap(),
            Vec::new(),
        )
        .unwrap_err();
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @r#"the value of "token" must have 1 to 8192 bytes, all of them printable ASCII"#);
        }
    }
    let longest = Secret::new("a".repeat(MAX_VALUE_BYTES));
    assert!(
        Credential::new("token", longest, Injection::query("key").unwrap(), Vec::new()).is_ok()
    );
    let two = vec![
        credential(Injection::query("a").unwrap()),
        credential(Injection::query("b").unwrap()),
    ];
    insta::assert_snapshot!(Credentials::new(two).unwrap_err(), @r#"there are two credentials named "token""#);
}

fn header_error(name: &str, prefix: &str) -> String {
    Injection::header(name, prefix).unwrap_err().to_string()
}

#[test]
fn debug_output_of_credentials_and_headers_hides_the_value() {
    for injection in
        [Injection::header("authorization", "Bearer ").unwrap(), Injection::query("key").unwrap()]
    {
        let credentials = Credentials::new(vec![credential(injection)]).unwrap();
        let mut url = Url::parse("https://x.com/a?b=c").unwrap();
        let mut headers = HeaderMap::new();
        credentials.select(&["token".to_owned()]).unwrap()[0].attach(&mut url, &mut headers);
        assert!(
            !format!("{credentials:?} {headers:?}").contains("s3cret"),
            "{credentials:?} {headers:?}"
        );
    }
}

#[test]
fn detaching_removes_only_the_parameter_that_holds_the_value() {
    let credential = credential(Injection::query("key").unwrap());
    for (url, without) in [
        ("https://x.com/?key=s3cret%2F%26value", "https://x.com/"),
        ("https://x.com/?a=%62&key=s3cret/%26value&c", "https://x.com/?a=%62&c"),
        ("https://x.com/?a&k%65y=s3cret%2f%26value&key=other", "https://x.com/?a&key=other"),
        ("https://x.com/?", "https://x.com/?"),
        ("https://x.com/?a&&b", "https://x.com/?a&&b"),
        ("https://x.com/key=s3cret", "https://x.com/key=s3cret"),
    ] {
        let mut target = Target::parse(url).unwrap();
        credential.detach(&mut target);
        assert_eq!(target.url().as_str(), without);
    }
}

#[test]
fn a_location_is_shown_without_the_parameter_of_the_credential() {
    let credential = credential(Injection::query("key").unwrap());
    for (location, shown) in [
        ("/b?key=s3cret%2F%26value", Some("/b")),
        ("https://y.com/?a&key=s3cret%2f%26value&c#d?e", Some("https://y.com/?a&c#d?e")),
        ("?key=s3cret%2f%26value#d", Some("#d")),
        ("/b#?key=s3cret%2f%26value", None),
        ("/b?key=other", None),
        ("/b", None),
    ] {
        assert_eq!(credential.detached(location).as_deref(), shown, "{location}");
    }
}

#[test]
fn a_request_names_each_credential_once_and_at_most_eight() {
    let mut all: Vec<_> = (0..9)
        .map(|index| named_credential(&index.to_string(), plain_header(&format!("x-{index}"))))
        .collect();
    all.push(named_credential("bearer", Injection::header("authorization", "Bearer ").unwrap()));
    all.push(named_credential("basic", Injection::basic("me").unwrap()));
    all.push(named_credential("query", Injection::query("key").unwrap()));
    let credentials = Credentials::new(all).unwrap();
    assert_eq!(count(&credentials, ""), Ok(0));
    assert_eq!(count(&credentials, "0 1 2 3 4 5 6 query"), Ok(8));
    insta::assert_snapshot!(why(&credentials, "0 1 2 3 4 5 6 7 8"), @"the request names 9 credentials, expected at most 8");
    insta::assert_snapshot!(why(&credentials, "0 1 0"), @r#"the credential "0" is named twice"#);
    insta::assert_snapshot!(why(&credentials, "basic query bearer"), @r#"the credentials "basic" and "bearer" both set the header authorization"#);
    assert_eq!(why(&credentials, "0 unknown"), EgressError::denied().to_string());
}

fn plain_header(name: &str) -> Injection {
    Injection::header(name, "").unwrap()
}

fn named_credential(name: &str, injection: Injection) -> Credential {
    Credential::new(name, Secret::new(VALUE), injection, Vec::new()).unwrap()
}

fn count(credentials: &Credentials, names: &str) -> Result<usize, String> {
    let names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
    let selected = credentials.select(&names).map_err(|error| error.to_string())?;
    Ok(selected.len())
}

fn why(credentials: &Credentials, names: &str) -> String {
    count(credentials, names).unwrap_err()
}

#[test]
fn a_value_is_redacted_in_any_case_and_as_basic_authentication_sends_it() {
    // `printf 'me:s3cret-value' | base64`
    assert_eq!(
        blotted("me", "s3cret-value", "Basic bWU6czNjcmV0LXZhbHVl S3CRET-Value me"),
        "Basic ******************** ************ me"
    );
    // `printf 'me:s3cret-value?' | base64`
    let text = "bWU6czNjcmV0LXZhbHVlPw== bWU6czNjcmV0LXZhbHVlPw%3D%3D bWU6czNjcmV0LXZhbHVlPw. \
                s3cret-value? me";
    let [padded, escaped, bare, password] = [24, 28, 22, 13].map(|length| "*".repeat(length));
    assert_eq!(
        blotted("", "me:s3cret-value?", text),
        format!("{padded} {escaped} {bare}. {password} me")
    );
}

fn blotted(user: &str, value: &str, text: &str) -> String {
    let injection = Injection::basic(user).unwrap();
    let made = Credential::new("token", Secret::new(value), injection, Vec::new()).unwrap();
    let mut bytes = text.as_bytes().to_vec();
    Credentials::new(vec![made]).unwrap().blot(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn redaction_keeps_the_length_of_a_value() {
    let credentials = Credentials::new(vec![credential(Injection::query("key").unwrap())]).unwrap();
    let mut body =
        b"<s3cret/&value> ?key=s3cret%2F%26value s3cret%2f%26value s3cret/%26value s3cret".to_vec();
    credentials.blot(&mut body);
    let stars = "*".repeat(17);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        format!("<*************> ?key={stars} {stars} *************** s3cret")
    );
    let short = Credential::new(
        "short",
        Secret::new("1234567"),
        Injection::query("k").unwrap(),
        Vec::new(),
    )
    .unwrap();
    let mut body = b"1234567".to_vec();
    let credentials = Credentials::new(vec![short]).unwrap();
    credentials.blot(&mut body);
    assert_eq!(body, b"1234567");
    assert_eq!(credentials.blotted("a 1234567"), "a *******", "the log shows none");
    assert_eq!(Credentials::default().blotted("a 1234567"), "a 1234567");
}

#[test]
fn values_are_found_in_every_spelling_and_at_every_length() {
    let credentials = Credentials::new(vec![credential(Injection::query("key").unwrap())]).unwrap();
    for text in [
        "s3cret/&value",
        "/x/s3cret%2F%26value",
        "s3cret%2f&v%61lue",
        "S3CRET/&VALUE",
        "s3cret%25252F%252526value",
    ] {
        assert!(credentials.occur_in(text.as_bytes()), "{text}");
    }
    for text in ["", "/x/s3cret", "s3cret%2F value", "%"] {
        assert!(!credentials.occur_in(text.as_bytes()), "{text}");
    }
    let short =
        Credential::new("short", Secret::new("a +"), Injection::query("k").unwrap(), Vec::new())
            .unwrap();
    let credentials = Credentials::new(vec![short]).unwrap();
    for (text, found) in [("a +", true), ("?a+%2B", true), ("?a%20+", true), ("?a++", false)] {
        assert_eq!(credentials.occur_in(text.as_bytes()), found, "{text}");
    }
    assert!(!Credentials::default().occur_in(b"a +"));
}

#[tokio::test]
async fn a_long_body_is_searched_on_a_thread_and_a_short_one_at_once() {
    let ann = Tenant::of_key([1; 32], "ann");
    let credentials = vec![credential(Injection::header("x-key", "").unwrap())];
    let credentials = Arc::new(Credentials::new(credentials).unwrap());
    let long = format!("{}{VALUE}", "x".repeat(threads::INLINE_BYTES));
    let body = Bytes::from(long.clone());
    let held = threads::occupy(&ann).await;
    assert_eq!(credentials.occur_in_body(&ann, VALUE.into()).now_or_never(), Some(true));
    let short = credentials.blot_body(&ann, VALUE.into()).now_or_never();
    assert_eq!(short, Some(vec![b'*'; VALUE.len()]));
    assert_eq!(credentials.occur_in_body(&ann, body.clone()).now_or_never(), None);
    assert_eq!(credentials.blot_body(&ann, long.clone().into()).now_or_never(), None);
    let none = Arc::new(Credentials::default());
    assert_eq!(none.occur_in_body(&ann, body.clone()).now_or_never(), Some(false));
    assert_eq!(none.blot_body(&ann, long.clone().into()).now_or_never(), Some(long.clone().into()));
    drop(held);
    assert!(credentials.occur_in_body(&ann, body).await);
    let blotted = credentials.blot_body(&ann, long.clone().into()).await;
    assert_eq!(blotted, long.replace(VALUE, &"*".repeat(VALUE.len())).into_bytes());
}
