//! Commands that people give in comments: `/countersign review` in the first line.

use crate::model::ForgePermission;

const NAME: &str = "/countersign";
/// Commands for the answer to an unknown one.
pub const COMMANDS: &str =
    "review, rework, accept FINDING why, continue, status, cancel, ok SHA, help";

/// A command of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentCommand {
    Review,
    Rework,
    /// Waives a finding, with the reason.
    Accept {
        finding: String,
        why: String,
    },
    Continue,
    Status,
    Cancel,
    /// Lets the checks of a fork's head run, for exactly this commit.
    Permit {
        commit: String,
    },
    Help,
    /// It is addressed to us and is no command; the text says what is wrong.
    Malformed(String),
}

/// Author of a command, as the forge reports it.
#[derive(Clone, Debug)]
pub struct CommandAuthor<'a> {
    pub login: &'a str,
    pub is_bot: bool,
    /// True if the comment was changed after it was written.
    pub is_edited: bool,
    pub permission: ForgePermission,
}

/// Reason why a command is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    #[error("commands of our own account are ignored")]
    Own,
    #[error("commands of bots are ignored")]
    Bot,
    #[error("an edited comment gives no command; write a new one")]
    Edited,
    #[error("commands need write permission on the repository")]
    NotPermitted,
}

/// Parses the first line of a comment. Quoted text, code and later lines give no command.
pub fn parse_command(body: &str) -> Option<CommentCommand> {
    let line = body.lines().next()?.trim_end();
    let rest = line.strip_prefix(NAME)?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let mut words = rest.split_whitespace();
    let verb = words.next().unwrap_or("help").to_ascii_lowercase();
    let argument = words.next();
    let why = words.collect::<Vec<_>>().join(" ");
    let malformed = |text: &str| CommentCommand::Malformed(text.to_owned());
    Some(match (verb.as_str(), argument) {
        ("review", None) => CommentCommand::Review,
        ("rework", _) => CommentCommand::Rework,
        ("continue", None) => CommentCommand::Continue,
        ("status", None) => CommentCommand::Status,
        ("cancel", _) => CommentCommand::Cancel,
        ("help", _) => CommentCommand::Help,
        ("accept", Some(finding)) if !why.is_empty() => CommentCommand::Accept {
            finding: finding.to_owned(),
            why: why.strip_prefix("because ").unwrap_or(&why).to_owned(),
        },
        ("accept", _) => malformed("name the finding and the reason: accept F3 because …"),
        ("ok", Some(commit)) if findings::write::is_commit_id(commit) => CommentCommand::Permit {
            commit: commit.to_ascii_lowercase(),
        },
        ("ok", _) => malformed("name the whole commit id: ok SHA"),
        ("review" | "continue" | "status", Some(_)) => malformed("this command takes no argument"),
        _ => CommentCommand::Malformed(format!("unknown command; use {COMMANDS}")),
    })
}

/// Decides whether the author of a comment may give commands; `own` is our account.
pub fn authorise(author: &CommandAuthor<'_>, own: &str) -> Result<(), CommandRefusal> {
    if author.login.eq_ignore_ascii_case(own) {
        return Err(CommandRefusal::Own);
    }
    if author.is_bot || author.login.ends_with("[bot]") {
        return Err(CommandRefusal::Bot);
    }
    if author.is_edited {
        return Err(CommandRefusal::Edited);
    }
    if author.permission < ForgePermission::Write {
        return Err(CommandRefusal::NotPermitted);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_first_line_at_its_beginning_gives_a_command() {
        let accept = parse_command("/countersign accept F3 because it is legacy\nthanks");
        let wanted = CommentCommand::Accept {
            finding: "F3".to_owned(),
            why: "it is legacy".to_owned(),
        };
        assert_eq!(accept, Some(wanted));
        assert_eq!(parse_command("/countersign"), Some(CommentCommand::Help));
        for none in [
            "hello\n/countersign cancel",
            "> /countersign cancel",
            "`/countersign cancel`",
            "```\n/countersign cancel\n```",
            " /countersign cancel",
            "/countersigned cancel",
            "",
        ] {
            assert_eq!(parse_command(none), None, "{none:?}");
        }
        for wrong in ["accept F1", "accept", "ok main", "dance", "status now"] {
            let parsed = parse_command(&format!("/countersign {wrong}"));
            assert!(
                matches!(parsed, Some(CommentCommand::Malformed(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn strangers_bots_readers_and_edits_are_refused() {
        let ada = CommandAuthor {
            login: "ada",
            is_bot: false,
            is_edited: false,
            permission: ForgePermission::Write,
        };
        assert_eq!(authorise(&ada, "us"), Ok(()));
        assert_eq!(authorise(&ada, "Ada"), Err(CommandRefusal::Own));
        let bot = CommandAuthor {
            login: "x[bot]",
            ..ada.clone()
        };
        assert_eq!(authorise(&bot, "us"), Err(CommandRefusal::Bot));
        let edited = CommandAuthor {
            is_edited: true,
            ..ada.clone()
        };
        assert_eq!(authorise(&edited, "us"), Err(CommandRefusal::Edited));
        for permission in [ForgePermission::Read, ForgePermission::None] {
            let reader = CommandAuthor {
                permission,
                ..ada.clone()
            };
            assert_eq!(authorise(&reader, "us"), Err(CommandRefusal::NotPermitted));
        }
    }

    proptest! {
        #[test]
        fn our_own_neutral_text_gives_no_command(text in "(/countersign|> |\n| |accept F1 x|[a-z]){0,8}") {
            prop_assert_eq!(parse_command(&crate::neutral::neutralise(&text)), None);
        }
    }
}
