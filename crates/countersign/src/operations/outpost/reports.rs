//! Reports of workers elsewhere: what happened comes from them, what follows from it does not. The
//! ground of a report is looked at here, in the store itself; then the ticket, its recorded policy
//! and `flow` decide, as for anybody.

use engine::desk::{self, Report};
use engine::perform::write_round_document;
use engine::workshop::Files;
use flow::outpost::{Ground, ground, price, voice};
use flow::{Policy, Refused, Ticket, TicketId, What};
use store::{Remembered, Scope, Stored};

use super::call::Decided;
use super::{Caller, No, cleaned, files};

impl Caller<'_> {
    pub async fn stored(&self, id: &TicketId) -> Result<Stored, No> {
        let found = self.office.desk.store.ticket(id).await?;
        found.ok_or_else(|| No::barred(format!("there is no ticket {id}")))
    }

    pub async fn policy_of(&self, stored: &Stored) -> Result<Policy, No> {
        self.office.desk.policy_of(stored).await.map_err(no)
    }

    /// Decides on a report, and says the number of its ticket.
    pub async fn decide(&self, decided: Decided) -> Result<i64, No> {
        let Decided {
            ticket,
            was,
            by,
            what,
            artefacts,
        } = decided;
        let (id, by) = (&ticket, voice(&by).map_err(No::barred)?);
        let what = cleaned(what)?;
        price(what.usage()).map_err(No::barred)?;
        let stored = self.stored(id).await?;
        let policy = self.policy_of(&stored).await?;
        let what = weighed(self.grounded(&stored.ticket, &policy, what).await?, &policy);
        let artefacts = files::sound(id, what.lease(), artefacts)?;
        let report = Report {
            on: Some(was),
            artefacts,
            ..Report::new(by, what)
        };
        let desk = &self.office.desk;
        let ticket = desk.decide(id, &policy, report).await.map_err(no)?;
        write_round_document(&Files::of(&self.office.surroundings.data_dir, id), &ticket);
        self.spread(id).await;
        Ok(stored.number)
    }

    /// The event, if what it rests on is so.
    async fn grounded(&self, ticket: &Ticket, policy: &Policy, what: What) -> Result<What, No> {
        match ground(&what).map_err(No::barred)? {
            Ground::Holds(lease) => {
                self.held(&ticket.id, lease).await?;
                Ok(what)
            }
            // The store compares with its own clock when it writes that.
            Ground::Lapsed(_) => Ok(what),
            Ground::DayIsSpent => {
                let today = (self.office.desk.clock)().day();
                let spent = self.office.desk.store.spent_since(today).await?;
                let limit = flow::over_day(ticket, policy, spent);
                let limit = limit.ok_or_else(|| No::barred("the day's budget is not used up"))?;
                Ok(What::BudgetReached { limit })
            }
            Ground::ProviderRests if self.some_provider_rests().await? => Ok(what),
            Ground::ProviderRests => Err(No::barred("no provider is paused")),
        }
    }

    async fn some_provider_rests(&self) -> Result<bool, No> {
        let store = &self.office.desk.store;
        let (pauses, now) = (store.pauses().await?, store.now().await?);
        Ok(pauses.iter().any(|pause| {
            matches!(pause.scope, Scope::Provider(_)) && pause.until.is_none_or(|until| until > now)
        }))
    }

    /// What it means to other tickets is told at once; whoever makes the rounds tells what is left.
    async fn spread(&self, id: &TicketId) {
        let waiting = self.office.desk.store.dependents(id).await;
        if waiting.is_ok_and(|waiting| !waiting.is_empty()) {
            let _ = self.office.bring_news().await;
        }
    }

    /// Whether a report was written whose answer was lost. Other keys are other callers'.
    pub async fn recall(&self, key: &str) -> Result<Option<Remembered>, No> {
        if !is_of_a_report(key) {
            return Err(No::barred("a worker asks after its reports"));
        }
        Ok(self.office.desk.store.recall(key).await?)
    }
}

/// `TICKET/JOB/FENCE/EVENT`
/// A worker's approval that names what must be fixed is none, whatever its own version made of it.
fn weighed(what: What, policy: &Policy) -> What {
    match what {
        What::Reviewed {
            lease,
            commit,
            review,
            isolation,
            usage,
        } => What::Reviewed {
            review: Box::new(flow::answer::weighed(*review, policy)),
            lease,
            commit,
            isolation,
            usage,
        },
        other => other,
    }
}

fn is_of_a_report(key: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    let [ticket, serial, fence, event] = parts.as_slice() else {
        return false;
    };
    let is_word = event.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let numbers = serial.parse::<u32>().is_ok() && fence.parse::<u64>().is_ok();
    TicketId::new(ticket).is_ok() && numbers && is_word
}

/// The desk has noted what it refused.
pub fn no(error: desk::Error) -> No {
    No::Store(match error {
        desk::Error::Store(error) => error,
        desk::Error::Refused(
            ref refused @ (Refused::StaleFence { serial, .. }
            | Refused::NoSuchJob { serial }
            | Refused::NotHolder { serial, .. }),
        ) => stale(serial, refused),
        other => store::Error::Overruled(other.to_string()),
    })
}

fn stale(serial: u32, refused: &Refused) -> store::Error {
    let (given, current) = match refused {
        Refused::StaleFence { given, current, .. } => (*given, *current),
        _ => (0, 0),
    };
    store::Error::StaleFence {
        job: serial.to_string(),
        given,
        current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_of_a_report_is_looked_up() {
        assert!(is_of_a_report("greet/3/7/submitted"));
        for other in [
            "rest/ada/key",
            "rest/ada/1/created",
            "greet/3/7",
            "greet/3/7/submitted/x",
            "../3/7/submitted",
            "",
        ] {
            assert!(!is_of_a_report(other), "{other}");
        }
    }
}
