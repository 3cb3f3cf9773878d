//! Bringing a ticket's news to those that depend on it.

use flow::job::News;
use flow::{Refused, TicketId, What};

use crate::desk::{Error, Report};
use crate::workshop::Workshop;

/// Tells every dependant. One that has heard it, or no longer waits, refuses; that is noted by the
/// desk and is no trouble here.
pub async fn tell(shop: &Workshop, id: &TicketId, news: &News) -> Result<(), Error> {
    for dependant in shop.desk.store.dependants(id).await? {
        let ticket = id.clone();
        let what = match news {
            News::Met => What::DependencyMet { ticket },
            News::Failed { why } => What::DependencyFailed {
                ticket,
                why: why.clone(),
            },
            News::Repaired => What::DependencyRepaired { ticket },
        };
        let stored = shop.desk.ticket(&dependant).await?;
        let policy = shop.desk.policy_of(&stored).await?;
        match shop
            .desk
            .decide(&dependant, &policy, Report::new(shop.house(), what))
            .await
        {
            Ok(_)
            | Err(Error::Refused(Refused::NotNow { .. } | Refused::NotADependency { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
