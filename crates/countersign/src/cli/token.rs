//! `countersign token …`

use super::Context;
use super::out::columns;
use app::failure::{ExitKind, Failure};
use app::operations::identity::NewToken;
use app::operations::questions::people::{CreateToken, ListTokens, RevokeToken, RotateToken};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Make a token for an agent, a person or a program. Its secret is shown this once.
    Create {
        /// The name that people read.
        #[arg(long, value_name = "NAME")]
        agent: String,
        /// builder, reviewer, verifier, human, service or admin.
        #[arg(long)]
        role: String,
        /// Whom the agent stands for; nobody judges what their principal built [default: itself].
        #[arg(long, value_name = "NAME")]
        principal: Option<String>,
        /// The family of its model, where the policy wants another than the builder's.
        #[arg(long)]
        family: Option<String>,
        /// The only ticket that it may speak of.
        #[arg(long, value_name = "TICKET")]
        ticket: Option<String>,
        /// How long it is good: 90s, 30m, 8h or 7d [default: until it is revoked].
        #[arg(long, value_parser = duration)]
        ttl: Option<u64>,
    },
    /// List tokens, without their secrets.
    List,
    /// End a token.
    Revoke { token: String },
    /// A new secret for the same agent, role and scope; the old one ends.
    Rotate { token: String },
}

/// `8h` in seconds.
fn duration(word: &str) -> Result<u64, String> {
    let bad = || format!("{word:?} is no time; write 90s, 30m, 8h or 7d");
    let unit = word.chars().last().ok_or_else(bad)?;
    let secs = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(bad()),
    };
    let number: u64 = word[..word.len() - 1].parse().map_err(|_| bad())?;
    number.checked_mul(secs).ok_or_else(bad)
}

pub async fn perform(verb: Verb, desktop: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Create {
            agent,
            role,
            principal,
            family,
            ticket,
            ttl,
        } => {
            let wanted = CreateToken {
                agent,
                role,
                principal,
                family,
                ticket,
                ttl_secs: ttl,
            };
            shown(&desktop.ask(wanted).await?, desktop);
        }
        Verb::Rotate { token } => shown(&desktop.ask(RotateToken { token }).await?, desktop),
        Verb::Revoke { token } => {
            let revoked = desktop.ask(RevokeToken { token }).await?;
            desktop
                .out
                .line(format!("{} of {} is revoked", revoked.id, revoked.agent));
            desktop
                .out
                .answer(&serde_json::json!({ "revoked": revoked }));
        }
        Verb::List => {
            let tokens = desktop.ask(ListTokens {}).await?.items;
            let now = engine::clock::now();
            let rows: Vec<Vec<String>> = tokens
                .iter()
                .map(|token| {
                    let ends = token
                        .expires_at
                        .map_or_else(|| "never".to_owned(), flow::Time::iso);
                    let state = match (token.revoked_at, token.expires_at) {
                        (Some(_), _) => "revoked".to_owned(),
                        (None, Some(end)) if end <= now => "expired".to_owned(),
                        (None, _) => format!("good until {ends}").replace("until never", ""),
                    };
                    vec![
                        token.id.clone(),
                        token.agent.clone(),
                        token.role.clone(),
                        token
                            .ticket
                            .as_ref()
                            .map(ToString::to_string)
                            .unwrap_or_default(),
                        state.trim().to_owned(),
                    ]
                })
                .collect();
            if rows.is_empty() {
                desktop
                    .out
                    .line("no tokens yet; `countersign token create` makes one");
            } else {
                for line in columns(&rows) {
                    desktop.out.line(line);
                }
            }
            desktop.out.answer(&tokens);
        }
    }
    Ok(ExitKind::Done)
}

/// The secret goes to the standard output alone, so that a script can take it.
fn shown(minted: &NewToken, desktop: &Context) {
    desktop.out.aside(format!(
        "token {} for {} as {}; the secret is shown this once:",
        minted.token.id, minted.token.agent, minted.token.role
    ));
    desktop.out.line(&minted.secret);
    desktop.out.answer(minted);
}
