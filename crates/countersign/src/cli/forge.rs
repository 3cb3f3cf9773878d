//! `countersign forge`: connects this machine to the forge of a repository.

use std::path::PathBuf;

use super::Context;
use app::failure::{ExitKind, Failure};
use app::operations::forge_setup::{self, ForgeSetup, ForgeSetupReport};

/// Longest token.
const TOKEN_BYTES_MAX: usize = 4096;

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Connect to the forge that has the pull requests of this repository, and check what the token
    /// may do.
    #[command(after_help = EXAMPLES)]
    Connect(ConnectArgs),
}

const EXAMPLES: &str = "\
Examples:
  countersign forge connect                                   check the connection; say what is missing
  gh auth token | countersign forge connect --token-stdin     keep a token in a file of its own
  countersign forge connect --token-env GITHUB_BOT_TOKEN      name the variable that has it
  countersign forge connect --url https://git.example --token-file ~/token";

#[derive(Debug, clap::Args)]
pub struct ConnectArgs {
    /// Kind of the forge [default: github].
    #[arg(long, value_name = "KIND", value_parser = ["github", "gitlab", "forgejo", "gitea"])]
    kind: Option<String>,
    /// Address of the server, if it is one of your own.
    #[arg(long)]
    url: Option<String>,
    /// OWNER/NAME, if the remote of the repository does not say it.
    #[arg(long, value_name = "OWNER/NAME")]
    repository: Option<String>,
    /// Variable that has the token.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["token_file", "token_stdin"])]
    token_env: Option<String>,
    /// File of mode 600 that has the token.
    #[arg(long, value_name = "FILE", conflicts_with = "token_stdin")]
    token_file: Option<PathBuf>,
    /// Read the token from standard input and keep it next to your configuration.
    #[arg(long)]
    token_stdin: bool,
}

pub async fn perform(verb: Verb, context: &Context) -> Result<ExitKind, Failure> {
    let Verb::Connect(args) = verb;
    let token = if args.token_stdin {
        let bytes = app::settings::read_stdin(TOKEN_BYTES_MAX)?;
        let text = String::from_utf8(bytes);
        Some(text.map_err(|_| Failure::usage("the token is not text"))?)
    } else {
        None
    };
    let setup = ForgeSetup {
        kind: args.kind,
        url: args.url,
        repository: args.repository,
        token_env: args.token_env,
        token_file: args.token_file.map(|file| context.directory.join(file)),
        token,
    };
    let connecting = forge_setup::connect(&context.environment, &context.directory, &setup);
    let ForgeSetupReport { written, checks } = Box::pin(connecting).await?;
    let out = &context.out;
    for path in &written {
        out.line(format!("wrote {}", path.display()));
    }
    for check in &checks {
        let mark = if check.fine { "ok " } else { "!! " };
        out.line(format!("{mark} {:<10} {}", check.what, check.found));
    }
    let fine = checks.iter().all(|check| check.fine);
    out.print_json(&serde_json::json!({"fine": fine, "forge": checks, "wrote": written}));
    if fine {
        out.line(
            "\nconnected. Tickets become pull requests with land = \"pr\"; see docs/forges.md",
        );
        return Ok(ExitKind::Done);
    }
    for line in STEPS {
        out.line(*line);
    }
    Ok(ExitKind::Error)
}

/// The way to a token, for somebody who has none.
const STEPS: &[&str] = &[
    "",
    "1. Create a token for this repository. On GitHub: Settings, Developer settings, Fine-grained",
    "   tokens, with Contents, Pull requests and Commit statuses (read and write).",
    "2. Keep it: countersign forge connect --token-stdin, then paste it and press Ctrl-D.",
    "   The same command replaces a token that has expired.",
    "3. On a server of your own, add --url https://SERVER.",
];
