//! The pages of a login, as HTML without scripts.

use super::{CONFIRMATION, LoginOffer, LoginRefusal};
use airlock_strings::visible_line;

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;\
                     color:#1a1a1a;background:#fff}dt{color:#555}dd{margin:0 0 .75rem;font-weight:600;\
                     overflow-wrap:anywhere}button{font:inherit;padding:.5rem 1.5rem}";

/// A page: a title, and the HTML below it.
pub(super) struct Page {
    title: String,
    body: String,
}

impl Page {
    /// Asks the user to confirm a login. `confirmation` is the code of the form.
    pub(super) fn offer(offer: &LoginOffer, confirmation: &str) -> Self {
        let body = format!(
            "<p>A program asks to use a server with your account there.</p>{}\
             <p><strong>Continue only if you have just asked for this yourself</strong>, and if the line above \
             names you. If another person sent you this link, close this page: that person could use the \
             server with your account.</p>{}",
            described(offer),
            form("Continue to log in", confirmation)
        );
        Self { title: format!("Log in at {}", visible_line(&offer.client)), body }
    }

    /// Asks the user of a browser that comes back from the authorization server to confirm for whom the
    /// login is. `confirmation` is the code of the form.
    pub(super) fn finish(offer: &LoginOffer, confirmation: &str) -> Self {
        let body = format!(
            "<p>The server has accepted the login.</p>{}\
             <p><strong>Finish only if you have begun this login yourself, on a page of this gateway</strong>, \
             and if the line above names you. Otherwise close this page: another person could use the server \
             with your account.</p>{}",
            described(offer),
            form("Finish the login", confirmation)
        );
        Self { title: format!("Finish the login at {}", visible_line(&offer.client)), body }
    }

    /// Reports a form that does not belong to the browser.
    pub(super) fn unconfirmed() -> Self {
        Self::of_text(
            "Not confirmed",
            "This form was not made for this browser, or the browser does not keep cookies. Open the link again.",
        )
    }

    /// Leads to the authorization server.
    pub(super) fn leaving() -> Self {
        Self::of_text("Log in", "The browser goes on to the page of the server.")
    }

    pub(super) fn done(client: &str) -> Self {
        let text = format!(
            "The gateway can use the server {} with your account now. You can close this page.",
            visible_line(client)
        );
        Self::of_text("You are logged in", &text)
    }

    pub(super) fn refusal(refusal: &LoginRefusal) -> Self {
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
            LoginRefusal::Failed(_) => {
                "The login failed or was refused. Open the link again, or ask the operator of the gateway: its log has the reason."
            }
            LoginRefusal::Unavailable(_) => "Logins are not available at present. Try again later.",
        };
        Self::of_text("Not logged in", text)
    }

    fn of_text(title: &str, text: &str) -> Self {
        Self { title: title.to_owned(), body: format!("<p>{}</p>", escaped(text)) }
    }

    pub(super) fn to_html(&self) -> String {
        let Self { title, body } = self;
        let title = escaped(title);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} – Airlock</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\
             <body><main><h1>{title}</h1>{body}</main></body></html>\n"
        )
    }
}

/// Describes the server and the holder of a login as HTML.
fn described(offer: &LoginOffer) -> String {
    let LoginOffer { client, host, key_name, user } = offer;
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

/// Returns a form that is sent to the URL of its own page.
fn form(button: &str, confirmation: &str) -> String {
    format!(
        "<form method=\"post\"><input type=\"hidden\" name=\"{CONFIRMATION}\" value=\"{}\">\
         <button type=\"submit\">{button}</button></form>",
        escaped(confirmation)
    )
}

/// Returns a name as HTML, in quotes, on one line and without invisible characters.
fn shown(text: &str) -> String {
    format!("“{}”", escaped(&visible_line(text)))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_link_names_server_and_holder_and_has_no_markup_of_theirs() {
        let offer = LoginOffer {
            client: "up".to_owned(),
            host: "mcp.example.com".to_owned(),
            key_name: "<img src=x>".to_owned(),
            user: Some(("https://idp\"'".to_owned(), "ann\n\u{202e}&".to_owned())),
        };
        let html = Page::offer(&offer, "c0de").to_html();
        for part in [
            "“up” (“mcp.example.com”)",
            "&lt;img src=x&gt;",
            "https://idp&quot;&#39;",
            "value=\"c0de\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<img") && !html.contains('\u{202e}') && !html.contains("ann\n"));
        let of_key = LoginOffer { user: None, ..offer };
        assert!(Page::offer(&of_key, "").to_html().contains("everyone who uses the virtual key"));
    }
}
