//! The pages of a login, as HTML without scripts.

use super::{
    CONFIRMATION, HEADER_PREFIX, KEY,
    user_logins::{LoginOffer, LoginRefusal},
};
use airlock_http::browser::{HtmlPage, escaped};
use airlock_strings::visible_line;

/// Asks the user to confirm a login, for the virtual key of its holder, and for the values of headers if
/// the server needs them. `confirmation` is the code of the form, and `error` the reason that it was not
/// taken before.
pub(super) fn offer(offer: &LoginOffer, confirmation: &str, error: Option<&str>) -> HtmlPage {
    let fields = fields(offer);
    let (button, title) = if offer.header_keys.is_empty() {
        ("Continue to log in", "Log in at")
    } else {
        ("Save", "Credentials for")
    };
    let error =
        error.map(|error| format!("<p role=\"alert\"><strong>{}</strong></p>", escaped(error)));
    let body = format!(
        "<p>A program asks to use a server with your account there.</p>{}\
         <p><strong>Continue only if you have just asked for this yourself</strong>, and if the line above \
         names you. If another person sent you this link, close this page: that person could use the \
         server with your account.</p>{}{}",
        described(offer),
        error.unwrap_or_default(),
        form(button, confirmation, &fields)
    );
    let title = format!("{title} {}", visible_line(&offer.client));
    let page = HtmlPage::new(title, body);
    if offer.header_keys.is_empty() { page } else { page.with_own_form() }
}

/// Asks the user of a browser that comes back from the authorization server to confirm for whom the
/// login is. `confirmation` is the code of the form.
pub(super) fn finish(offer: &LoginOffer, confirmation: &str) -> HtmlPage {
    let body = format!(
        "<p>The server has accepted the login.</p>{}\
         <p><strong>Finish only if you have begun this login yourself, on a page of this gateway</strong>, \
         and if the line above names you. Otherwise close this page: another person could use the server \
         with your account.</p>{}",
        described(offer),
        form("Finish the login", confirmation, "")
    );
    HtmlPage::new(format!("Finish the login at {}", visible_line(&offer.client)), body)
}

/// Reports a form that does not belong to the browser.
pub(super) fn unconfirmed() -> HtmlPage {
    HtmlPage::of_text(
        "Not confirmed",
        "This form was not made for this browser, or the browser does not keep cookies. Open the link again.",
    )
}

/// Leads to the authorization server.
pub(super) fn leaving() -> HtmlPage {
    HtmlPage::of_text("Log in", "The browser goes on to the page of the server.")
}

pub(super) fn done(client: &str) -> HtmlPage {
    let text = format!(
        "The gateway can use the server {} with your account now. You can close this page.",
        visible_line(client)
    );
    HtmlPage::of_text("You are logged in", &text)
}

pub(super) fn refusal(refusal: &LoginRefusal) -> HtmlPage {
    let text = match refusal {
        LoginRefusal::Gone => {
            "This link has expired or was used. Repeat the request that it came from: it gives you another one."
        }
        LoginRefusal::OtherBrowser => {
            "This login was not begun in this browser. Open the link in the browser in which you log in."
        }
        LoginRefusal::Busy => {
            "Other logins at this server are being begun, or the server does not respond. Open the link again in a moment."
        }
        LoginRefusal::Invalid(reason) => reason.as_str(),
        LoginRefusal::Failed(_) => {
            "The login failed or was refused. Open the link again, or ask the operator of the gateway: its log has the reason."
        }
        LoginRefusal::Unavailable(_) => "Logins are not available at present. Try again later.",
    };
    HtmlPage::of_text("Not logged in", text)
}

/// Describes the server and the holder of a login as HTML.
fn described(offer: &LoginOffer) -> String {
    let LoginOffer { client, host, key_name, user, .. } = offer;
    let holder = match user {
        Some((issuer, subject)) => format!(
            "the user {} of {}, with the virtual key {}",
            shown(subject),
            shown(issuer),
            shown(key_name)
        ),
        None => format!("everyone who uses the virtual key {}", shown(key_name)),
    };
    format!(
        "<dl><dt>Server</dt><dd>{} ({})</dd><dt>Your account will be used for</dt><dd>{holder}</dd></dl>",
        shown(client),
        shown(host)
    )
}

/// Returns a form with these fields that is sent to the URL of its own page.
fn form(button: &str, confirmation: &str, fields: &str) -> String {
    format!(
        "<form method=\"post\" autocomplete=\"off\"><input type=\"hidden\" name=\"{CONFIRMATION}\" value=\"{}\">\
         {fields}<button type=\"submit\">{button}</button></form>",
        escaped(confirmation)
    )
}

/// Returns the fields for the virtual key of the holder and for the values of headers.
fn fields(offer: &LoginOffer) -> String {
    let mut fields = String::new();
    if offer.user.is_none() {
        fields.push_str(&field(KEY, &format!("Virtual key {}", shown(&offer.key_name))));
    }
    for name in &offer.header_keys {
        let label = format!("Value of the header {}", shown(name));
        fields.push_str(&field(&format!("{HEADER_PREFIX}{name}"), &label));
    }
    fields
}

/// Returns a field for a secret, whose label is HTML.
fn field(name: &str, label: &str) -> String {
    let name = escaped(name);
    format!(
        "<p><label for=\"{name}\">{label}</label><br>\
         <input type=\"password\" id=\"{name}\" name=\"{name}\" autocomplete=\"off\" required></p>"
    )
}

/// Returns a name as HTML, in quotes, on one line and without invisible characters.
fn shown(text: &str) -> String {
    format!("“{}”", escaped(&visible_line(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_link_names_server_and_holder_and_has_no_markup_of_theirs() {
        let offer = LoginOffer {
            client: "up".to_owned(),
            host: "mcp.example.com".to_owned(),
            header_keys: Vec::new(),
            holder: [0; 32],
            key_name: "<img src=x>".to_owned(),
            user: Some(("https://idp\"'".to_owned(), "ann\n\u{202e}&".to_owned())),
        };
        let html = super::offer(&offer, "c0de", None).to_html();
        for part in [
            "“up” (“mcp.example.com”)",
            "&lt;img src=x&gt;",
            "https://idp&quot;&#39;",
            "value=\"c0de\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<img") && !html.contains('\u{202e}') && !html.contains("ann\n"));
        assert!(!html.contains("type=\"password\""), "a user has no key to enter");
        let header_keys = vec!["x-api-key".to_owned()];
        let of_key = LoginOffer { user: None, header_keys, ..offer };
        let html = super::offer(&of_key, "", Some("<b>")).to_html();
        for part in [
            "everyone who uses the virtual key",
            "type=\"password\" id=\"key\" name=\"key\"",
            "name=\"header-x-api-key\"",
            "&lt;b&gt;",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
