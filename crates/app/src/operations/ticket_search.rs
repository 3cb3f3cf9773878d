//! Search over tickets by words and terms such as `stage:reviewing`, for people.

use flow::{Stage, TicketId};
use store::{Page, Paged, TicketRow};

use super::{App, tickets};
use crate::failure::Failure;

/// Tickets that one search looks at, so that a filter without matches ends.
const SEARCHED_MAX: usize = 20_000;
const SEARCH_PAGE: u32 = 500;

/// A filter as a person types it. All terms must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TicketFilter {
    pub stages: Vec<Stage>,
    pub epic: Option<String>,
    /// Part of the repository's path.
    pub repository: Option<String>,
    /// Words in the id or the title, in lower case.
    pub words: Vec<String>,
    /// Sentences about terms that are not understood.
    pub problems: Vec<String>,
}

impl TicketFilter {
    /// Parses a filter; a term that is not understood becomes a problem and is left out.
    pub fn parse(text: &str) -> Self {
        let mut filter = Self::default();
        for term in text.split_whitespace() {
            match term.split_once(':') {
                Some(("stage", words)) => filter.add_stages(words),
                Some(("epic", epic)) => filter.epic = Some(epic.to_owned()),
                Some(("repo", name)) => filter.repository = Some(name.to_lowercase()),
                Some(_) | None => filter.words.push(term.to_lowercase()),
            }
        }
        filter
    }

    fn add_stages(&mut self, words: &str) {
        for word in words.split(',') {
            if let Some(stage) = Stage::parse(word) {
                self.stages.push(stage);
                continue;
            }
            let known: Vec<&str> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
            let known = known.join(", ");
            self.problems
                .push(format!("{word:?} is not a stage. Stages are {known}."));
        }
    }

    /// True if the store can answer the whole filter.
    fn is_by_stage(&self) -> bool {
        self.epic.is_none() && self.repository.is_none() && self.words.is_empty()
    }

    fn matches(&self, row: &TicketRow) -> bool {
        let text = format!("{} {}", row.id, row.title).to_lowercase();
        let epic = self.epic.as_ref();
        let repository = row.repository.as_deref().unwrap_or_default().to_lowercase();
        self.words.iter().all(|word| text.contains(word))
            && epic.is_none_or(|epic| row.epic.as_ref() == Some(epic))
            && self
                .repository
                .as_ref()
                .is_none_or(|part| repository.contains(part))
    }
}

/// Lists matching tickets, newest first. `next` continues the search, also if it ended at the
/// limit of tickets that one search looks at.
pub async fn search(
    app: &App,
    filter: &TicketFilter,
    mut after: Option<i64>,
    most: u32,
) -> Result<Paged<TicketRow>, Failure> {
    let stages = filter.stages.clone();
    if filter.is_by_stage() {
        return tickets::list(app, stages, None, &Page { after, most }).await;
    }
    let (mut items, mut searched) = (Vec::new(), 0);
    while searched < SEARCHED_MAX {
        let page = Page {
            after,
            most: SEARCH_PAGE,
        };
        let rows = tickets::list(app, stages.clone(), None, &page).await?;
        searched += rows.items.len();
        for row in rows.items {
            if !filter.matches(&row) {
                continue;
            }
            let number = row.number;
            items.push(row);
            if items.len() >= most as usize {
                let next = Some(number);
                return Ok(Paged { items, next });
            }
        }
        after = rows.next;
        if after.is_none() {
            break;
        }
    }
    Ok(Paged { items, next: after })
}

/// Loads the rows of these tickets, as a list would show them.
pub async fn rows(
    app: &App,
    ids: impl IntoIterator<Item = &TicketId>,
) -> Result<Vec<TicketRow>, Failure> {
    let mut rows = Vec::new();
    for id in ids {
        let stored = app.coordinator.ticket(id).await?;
        let policy = app.coordinator.policy_of(&stored).await?;
        let ticket = stored.ticket;
        let open = ticket.ledger.open_must_fix(&policy).len();
        rows.push(TicketRow {
            // A list continues after the number; these rows are in no list.
            number: 0,
            open_must_fix: u32::try_from(open).unwrap_or(u32::MAX),
            waits_for: u32::try_from(ticket.waits_for.len()).unwrap_or(u32::MAX),
            stage: ticket.stage,
            priority: ticket.spec.priority,
            round: ticket.round,
            epic: ticket.spec.context.epic,
            repository: ticket.spec.context.repository,
            version: ticket.version,
            usd_micros: ticket.spent.ticket.usd_micros,
            created_at: ticket.created_at,
            updated_at: ticket.updated_at,
            title: ticket.spec.title,
            id: ticket.id,
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_terms_and_words_and_names_what_it_does_not_know() {
        let filter = TicketFilter::parse("stage:queued,nonsense Epic:x epic:pay repo:Shop Greet");
        assert_eq!(filter.stages, [Stage::Queued]);
        assert_eq!(filter.epic.as_deref(), Some("pay"));
        assert_eq!(filter.repository.as_deref(), Some("shop"));
        assert_eq!(filter.words, ["epic:x", "greet"]);
        assert!(filter.problems[0].starts_with("\"nonsense\" is not a stage"));
    }
}
