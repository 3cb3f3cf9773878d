//! `countersign token …`: creates, lists, rotates and revokes tokens.

use super::out::columns;
use super::{Context, open};
use app::failure::{ExitKind, Failure};
use app::operations::identity::NewToken;
use app::operations::questions::people::{
    CreateToken, ListTokens, NewSharedLink, RevokeToken, RotateToken, ShareTicket,
};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Create a token for an agent, a person or a program. Its secret is shown only once.
    Create {
        /// Name of the agent, person or program.
        #[arg(long, value_name = "NAME")]
        agent: String,
        /// Role: builder, reviewer, verifier, human, service, admin or viewer.
        #[arg(long)]
        role: String,
        /// Principal of the agent; agents never review work of their own principal [default: the
        /// name].
        #[arg(long, value_name = "NAME")]
        principal: Option<String>,
        /// Model family, for policies that require a reviewer of another family than the builder.
        #[arg(long)]
        family: Option<String>,
        /// Limit the token to this ticket.
        #[arg(long, value_name = "TICKET")]
        ticket: Option<String>,
        /// Lifetime: 90s, 30m, 8h or 7d [default: until revoked].
        #[arg(long, value_parser = parse_duration)]
        ttl: Option<u64>,
    },
    /// Make a link that shows one ticket and its diff to everybody who has it: read-only, without
    /// transcripts and costs, with an end. It is shown only once.
    Share {
        /// Id of the ticket.
        #[arg(long, value_name = "TICKET")]
        ticket: String,
        /// Lifetime: 90s, 30m, 8h or 7d; at most 90d.
        #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "7d")]
        expires: u64,
    },
    /// List tokens and links to tickets, without their secrets.
    List,
    /// Revoke a token, or a link to a ticket.
    Revoke {
        /// Id of the token or link, from `token list`.
        token: String,
    },
    /// Replace the secret of a token; the old one stops working.
    Rotate {
        /// Id of the token, from `token list`.
        token: String,
    },
}

/// Parses a duration such as `8h` into seconds.
pub fn parse_duration(word: &str) -> Result<u64, String> {
    let bad = || format!("{word:?} is not a duration; use 90s, 30m, 8h or 7d");
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

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    match verb {
        Verb::Create {
            agent,
            role,
            principal,
            family,
            ticket,
            ttl,
        } => {
            let request = CreateToken {
                agent,
                role,
                principal,
                family,
                ticket,
                ttl_secs: ttl,
            };
            print_new_token(&context.ask(request).await?, context);
        }
        Verb::Share { ticket, expires } => {
            let ticket = context.resolve_ticket(&ticket).await?;
            let request = ShareTicket {
                ticket,
                expires_secs: Some(expires),
            };
            print_new_link(&context.ask(request).await?, context);
        }
        Verb::Rotate { token } => {
            print_new_token(&context.ask(RotateToken { token }).await?, context);
        }
        Verb::Revoke { token } => {
            let revoked = context.ask(RevokeToken { token }).await?;
            context
                .out
                .line(format!("{} of {} was revoked", revoked.id, revoked.agent));
            context
                .out
                .print_json(&serde_json::json!({ "revoked": revoked }));
        }
        Verb::List => {
            let tokens = context.ask(ListTokens {}).await?.items;
            let now = engine::clock::now();
            let rows: Vec<Vec<String>> = tokens
                .iter()
                .map(|token| {
                    let ends = token
                        .expires_at
                        .map_or_else(|| "never".to_owned(), flow::Time::to_iso);
                    let state = match (token.revoked_at, token.expires_at) {
                        (Some(_), _) => "revoked".to_owned(),
                        (None, Some(end)) if end <= now => "expired".to_owned(),
                        (None, _) => format!("good until {ends}").replace("until never", ""),
                    };
                    let kind = match token.link_uses() {
                        Some(uses) => format!("link, opened {uses} times"),
                        None => token.role.clone(),
                    };
                    vec![
                        token.id.clone(),
                        token.agent.clone(),
                        kind,
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
                context
                    .out
                    .line("no tokens yet; create one with `countersign token create`");
            } else {
                for line in columns(&rows) {
                    context.out.line(line);
                }
            }
            context.out.print_json(&tokens);
        }
    }
    Ok(ExitKind::Done)
}

/// Prints the address of the link alone on standard output, with the server that runs here.
fn print_new_link(made: &NewSharedLink, context: &Context) {
    let ends = made.token.expires_at.map(flow::Time::to_iso);
    context.out.progress(format!(
        "link {} to {}, until {}; it is shown only once:",
        made.token.id,
        made.token.ticket.as_ref().map_or("", |id| id.as_str()),
        ends.unwrap_or_default()
    ));
    let url = open::server_url(context);
    let base = url.as_deref().unwrap_or("http://127.0.0.1:7420");
    let link = format!("{base}{}", made.path);
    context.out.line(&link);
    if url.is_none() {
        context
            .out
            .progress("no server runs; start one with: countersign serve");
    }
    context
        .out
        .print_json(&serde_json::json!({ "link": link, "path": made.path, "token": made.token }));
}

/// Prints the secret alone on standard output, so that a script can read it.
fn print_new_token(minted: &NewToken, context: &Context) {
    context.out.progress(format!(
        "token {} for {} as {}; the secret is shown only once:",
        minted.token.id, minted.token.agent, minted.token.role
    ));
    context.out.line(&minted.secret);
    context.out.print_json(minted);
}
