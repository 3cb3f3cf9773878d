//! Tickets, their findings and their story.

use schemars::schema_for;

use super::{Route, Who};
use app::operations::questions::decisions::{
    Budget, Cancel, Escalation, Escalations, Settle, Waive,
};
use app::operations::questions::tickets::{
    Add, AddMany, Artefacts, Diff, Export, Forecasted, Import, List, Show,
};

const PAGED: &[(&str, &str)] = &[
    ("after", "the next of the page before"),
    ("limit", "at most so many, up to 1000"),
];
const LISTED: &[(&str, &str)] = &[
    ("stage", "only tickets in these stages, with commas"),
    ("after", "the next of the page before"),
    ("limit", "at most so many, up to 1000"),
];
const EXPORTED: &[(&str, &str)] = &[
    ("tickets", "which, with commas"),
    ("form", "task, epic-state, findings or report"),
    ("round", "the last, where it is not said"),
];
const ROUND: &[(&str, &str)] = &[("round", "the last, where it is not said")];

pub const ROUTES: &[Route] = &[
    Route::of::<List>(Who::People, "Lists tickets, newest first.").query(LISTED),
    Route::of::<Add>(Who::People, "Adds a ticket.").takes(|| schema_for!(Add)),
    Route::of::<AddMany>(
        Who::People,
        "Adds several tickets at once; they may depend on each other.",
    )
    .takes(|| schema_for!(AddMany)),
    Route::of::<Import>(
        Who::People,
        "Takes over an epic, or tickets from another system's file.",
    )
    .takes(|| schema_for!(Import)),
    Route::of::<Show>(Who::People, "Shows one ticket, whole."),
    Route::of::<Forecasted>(
        Who::People,
        "What its next round may cost, and what is left.",
    ),
    Route::of::<Artefacts>(Who::People, "Its files on the server."),
    Route::of::<Diff>(
        Who::People,
        "Its change, with the findings of that round in place.",
    )
    .query(ROUND),
    Route::of::<Cancel>(Who::People, "Stops a ticket for good.").takes(|| schema_for!(Cancel)),
    Route::of::<Waive>(
        Who::People,
        "Lets one open finding stand, in the caller's name.",
    )
    .takes(|| schema_for!(Waive)),
    Route::of::<Budget>(Who::People, "Sets what a ticket may spend.").takes(|| schema_for!(Budget)),
    Route::of::<Export>(Who::People, "Tickets in another system's form.").query(EXPORTED),
    Route::of::<Escalations>(Who::People, "Lists the tickets that wait for a person.").query(PAGED),
    Route::of::<Escalation>(Who::People, "Why one waits, and what can be decided."),
    Route::of::<Settle>(Who::People, "Settles one, in the caller's name.")
        .takes(|| schema_for!(Settle)),
];
