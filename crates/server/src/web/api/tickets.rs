//! Tickets, their findings and their story.

use schemars::schema_for;

use super::{Route, RouteAccess};
use app::operations::questions::decisions::{
    CancelTicket, ListEscalations, RaiseBudget, ResolveEscalation, ShowEscalation, WaiveFinding,
};
use app::operations::questions::tickets::{
    AddTicket, AddTickets, ExportTickets, ForecastTicket, ImportFile, ListArtefacts, ListTickets,
    ShowDiff, ShowTicket,
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
    Route::of::<ListTickets>(RouteAccess::People, "Lists tickets, newest first.").query(LISTED),
    Route::of::<AddTicket>(RouteAccess::People, "Adds a ticket.").takes(|| schema_for!(AddTicket)),
    Route::of::<AddTickets>(
        RouteAccess::People,
        "Adds several tickets at once; they may depend on each other.",
    )
    .takes(|| schema_for!(AddTickets)),
    Route::of::<ImportFile>(
        RouteAccess::People,
        "Takes over an epic, or tickets from another system's file.",
    )
    .takes(|| schema_for!(ImportFile)),
    Route::of::<ShowTicket>(RouteAccess::People, "Shows one ticket, whole."),
    Route::of::<ForecastTicket>(
        RouteAccess::People,
        "What its next round may cost, and what is left.",
    ),
    Route::of::<ListArtefacts>(RouteAccess::People, "Its files on the server."),
    Route::of::<ShowDiff>(
        RouteAccess::People,
        "Its change, with the findings of that round in place.",
    )
    .query(ROUND),
    Route::of::<CancelTicket>(RouteAccess::People, "Stops a ticket for good.")
        .takes(|| schema_for!(CancelTicket)),
    Route::of::<WaiveFinding>(
        RouteAccess::People,
        "Lets one open finding stand, in the caller's name.",
    )
    .takes(|| schema_for!(WaiveFinding)),
    Route::of::<RaiseBudget>(RouteAccess::People, "Sets what a ticket may spend.")
        .takes(|| schema_for!(RaiseBudget)),
    Route::of::<ExportTickets>(RouteAccess::People, "Tickets in another system's form.")
        .query(EXPORTED),
    Route::of::<ListEscalations>(
        RouteAccess::People,
        "Lists the tickets that wait for a person.",
    )
    .query(PAGED),
    Route::of::<ShowEscalation>(
        RouteAccess::People,
        "Why one waits, and what can be decided.",
    ),
    Route::of::<ResolveEscalation>(RouteAccess::People, "Settles one, in the caller's name.")
        .takes(|| schema_for!(ResolveEscalation)),
];
