//! Short names for tickets: the beginning of an id, if only one ticket begins with it, and `@last`
//! for the newest ticket of the repository.

use store::TicketRow;

use crate::failure::Failure;

/// Name of the newest ticket.
pub const LAST: &str = "@last";
/// Candidates that are asked for; one more than an error lists, to say that there are more.
pub const CANDIDATES_MAX: u32 = 11;

/// Chooses the ticket that a person means among those whose ids begin with the text. Without a
/// candidate the text itself is returned, and the command says that there is no such ticket.
pub fn choose(text: &str, candidates: &[TicketRow]) -> Result<String, Failure> {
    if candidates.iter().any(|row| row.id.as_str() == text) {
        return Ok(text.to_owned());
    }
    match candidates {
        [] => Ok(text.to_owned()),
        [only] => Ok(only.id.to_string()),
        several => {
            let shown = CANDIDATES_MAX as usize - 1;
            let count = if several.len() > shown {
                format!("more than {shown}")
            } else {
                several.len().to_string()
            };
            let mut failure =
                Failure::usage(format!("{text:?} is the beginning of {count} ticket ids"));
            for row in several.iter().take(shown) {
                let title = findings::shorten(&findings::one_line(&row.title), 60);
                failure = failure.hint(format!("{}  {}  {title}", row.id, row.stage));
            }
            Err(failure)
        }
    }
}

/// Returns the newest ticket of a list, for `@last`.
pub fn newest(candidates: &[TicketRow], in_repository: bool) -> Result<String, Failure> {
    match candidates.first() {
        Some(row) => Ok(row.id.to_string()),
        None if in_repository => Err(Failure::usage("this repository has no ticket yet")
            .hint("start one: countersign run \"…\"")),
        None => Err(Failure::usage("there is no ticket yet")),
    }
}

#[cfg(test)]
mod tests {
    use flow::{Stage, TicketId, Time};

    use super::*;

    fn row(id: &str) -> TicketRow {
        TicketRow {
            number: 1,
            id: TicketId::new(id).unwrap(),
            title: "a title".to_owned(),
            stage: Stage::Done,
            priority: 50,
            round: 1,
            epic: None,
            repository: None,
            version: 1,
            waits_for: 0,
            open_must_fix: 0,
            usd_micros: 0,
            created_at: Time(0),
            updated_at: Time(0),
        }
    }

    #[test]
    fn a_beginning_names_one_ticket_or_lists_the_candidates() {
        assert_eq!(choose("T", &[row("T-1")]).unwrap(), "T-1");
        assert_eq!(choose("T-1", &[row("T-12"), row("T-1")]).unwrap(), "T-1");
        assert_eq!(choose("x", &[]).unwrap(), "x");
        let failure = choose("T", &[row("T-1"), row("T-2")]).unwrap_err();
        assert!(failure.message.contains("2 ticket ids"), "{failure:?}");
        assert_eq!(failure.hints.len(), 2);
        let many: Vec<TicketRow> = (0..11).map(|n| row(&format!("T-{n}"))).collect();
        let failure = choose("T", &many).unwrap_err();
        assert!(failure.message.contains("more than 10"), "{failure:?}");
    }

    #[test]
    fn the_last_ticket_is_the_newest_and_there_may_be_none() {
        assert_eq!(newest(&[row("T-9"), row("T-1")], true).unwrap(), "T-9");
        assert!(newest(&[], true).is_err());
    }
}
