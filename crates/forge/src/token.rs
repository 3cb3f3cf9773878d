//! The credential of a forge.

use std::fmt;

use base64::Engine;

use crate::app_auth::AppCredential;

/// Token of a forge. It appears in no debug output, error or log.
#[derive(Clone, PartialEq, Eq)]
pub struct ForgeToken(String);

impl ForgeToken {
    /// Takes a token from a variable, a file or the output of a command. `None` if there is none,
    /// or if the text cannot be a token (a message of a login tool, for example).
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_token =
            !text.is_empty() && text.len() <= 4096 && text.chars().all(|c| c.is_ascii_graphic());
        is_token.then(|| Self(text.to_owned()))
    }

    /// Returns the `Authorization` header for git over HTTPS, where the token is the password.
    pub fn git_header(&self) -> String {
        let pair = format!("x-access-token:{}", self.0);
        let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
        format!("Authorization: Basic {encoded}")
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Removes the token from a text of the forge, which may repeat what it was sent: the token
    /// itself, or the header in which it went out. A text must be redacted before it is cut, because
    /// the beginning of a token is no longer recognised.
    pub fn redact(&self, text: &str) -> String {
        let pair = self.git_header();
        let pair = pair.rsplit(' ').next().unwrap_or_default();
        text.replace(&self.0, "[token]").replace(pair, "[token]")
    }
}

impl fmt::Debug for ForgeToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ForgeToken(…)")
    }
}

/// Everything by which a forge knows us.
#[derive(Clone, Debug)]
pub enum ForgeCredential {
    Token(ForgeToken),
    /// A token together with the address of its account, as Jira Cloud wants it.
    Account {
        login: String,
        token: ForgeToken,
    },
    App(AppCredential),
}

impl From<ForgeToken> for ForgeCredential {
    fn from(token: ForgeToken) -> Self {
        Self::Token(token)
    }
}

/// Header in which a forge wants its token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TokenHeader {
    Bearer,
    /// Forgejo and Gitea.
    Token,
    /// GitLab.
    Private,
}

impl TokenHeader {
    pub fn build(self, login: Option<&str>, token: &ForgeToken) -> (&'static str, String) {
        let token = token.reveal();
        if let Some(login) = login {
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{login}:{token}"));
            return ("authorization", format!("Basic {pair}"));
        }
        match self {
            Self::Bearer => ("authorization", format!("Bearer {token}")),
            Self::Token => ("authorization", format!("token {token}")),
            Self::Private => ("private-token", token.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_itself_nowhere() {
        let token = ForgeToken::new(" ghp_secret\n").unwrap();
        assert!(!format!("{token:?}").contains("secret"));
        assert_eq!(token.redact("bad ghp_secret!"), "bad [token]!");
        for wrong in ["", " \n", "not logged in", "a\u{e9}"] {
            assert!(ForgeToken::new(wrong).is_none(), "{wrong:?}");
        }
    }
}
