//! Routes for tickets, their findings and their escalations.

use schemars::schema_for;

use super::{Route, RouteAccess};
use app::operations::questions::decisions::{
    AddFindings, CancelTicket, ImportFindings, ListEscalations, RaiseBudget, ResolveEscalation,
    ShowEscalation, WaiveFinding,
};
use app::operations::questions::pull_requests::LookAtPullRequest;
use app::operations::questions::tickets::{
    AddTicket, AddTickets, ExportTickets, ForecastTicket, ImportFile, ListArtefacts, ListEvents,
    ListRuns, ListTickets, ShowDiff, ShowTicket,
};

const LISTED: &[(&str, &str)] = &[
    (
        "q",
        "only tickets with all these words in the id, the title or the epic",
    ),
    ("epic", "only tickets of this epic"),
    (
        "sort",
        "created, updated, priority, cost, round or must_fix, lowest first; with - before it, highest first; default: -created",
    ),
    (
        "counts",
        "true: also count the tickets of these filters by stage",
    ),
    ("stage", "only tickets in these stages, separated by commas"),
    ("after", "the `next` value of the previous page"),
    ("limit", "maximum number of entries, up to 1000"),
    (
        "repository",
        "only tickets of this repository (a path on the server)",
    ),
    ("prefix", "only tickets whose ids begin with this text"),
];
const ESCALATED: &[(&str, &str)] = &[
    ("after", "the `next` value of the previous page"),
    ("limit", "maximum number of entries, up to 1000"),
    (
        "repository",
        "only tickets of this repository (a path on the server)",
    ),
];
const EXPORTED: &[(&str, &str)] = &[
    ("tickets", "ticket ids, separated by commas"),
    (
        "epic",
        "a whole epic instead of tickets, with the form epic-state",
    ),
    ("form", "task, epic-state, findings, report or revision"),
    ("round", "number of the round; default: the last"),
];
const DIFF: &[(&str, &str)] = &[
    ("round", "number of the round; default: the last"),
    ("to_round", "the same as round"),
    (
        "from_round",
        "compare with the commit of this round; default: with the base",
    ),
    ("file", "only this file, by its new or its old name"),
];
const EVENTS: &[(&str, &str)] = &[
    ("after", "only events after this position (12.345)"),
    ("limit", "maximum number of entries, up to 1000"),
];

pub const ROUTES: &[Route] = &[
    Route::for_question::<ListTickets>(
        RouteAccess::People,
        "Lists tickets, newest first by default.",
    )
    .query(LISTED),
    Route::for_question::<AddTicket>(RouteAccess::People, "Adds a ticket.")
        .takes(|| schema_for!(AddTicket)),
    Route::for_question::<AddTickets>(
        RouteAccess::People,
        "Adds several tickets at once; they may depend on each other.",
    )
    .takes(|| schema_for!(AddTickets)),
    Route::for_question::<ImportFile>(
        RouteAccess::People,
        "Imports an epic, or tickets from another system's file.",
    )
    .takes(|| schema_for!(ImportFile)),
    Route::for_question::<ShowTicket>(RouteAccess::People, "Shows a ticket with all its fields.")
        .versioned(),
    Route::for_question::<ForecastTicket>(
        RouteAccess::People,
        "Forecasts the cost of the next round, and shows the rest of the budget.",
    ),
    Route::for_question::<ListArtefacts>(
        RouteAccess::People,
        "Lists the ticket's files on the server.",
    ),
    Route::for_question::<ShowDiff>(
        RouteAccess::People,
        "Shows the ticket's diff with the findings of that round at their lines.",
    )
    .query(DIFF),
    Route::for_question::<ListEvents>(
        RouteAccess::People,
        "Lists the ticket's events in the order of the log.",
    )
    .query(EVENTS),
    Route::for_question::<ListRuns>(
        RouteAccess::People,
        "Lists the runs of agents for the ticket.",
    ),
    Route::for_question::<CancelTicket>(RouteAccess::People, "Cancels a ticket for good.")
        .takes(|| schema_for!(CancelTicket))
        .versioned(),
    Route::for_question::<WaiveFinding>(
        RouteAccess::People,
        "Waives an open finding in the caller's name.",
    )
    .takes(|| schema_for!(WaiveFinding))
    .versioned(),
    Route::for_question::<AddFindings>(
        RouteAccess::People,
        "Adds the caller's findings on the ticket's current commit.",
    )
    .takes(|| schema_for!(AddFindings))
    .versioned(),
    Route::for_question::<ImportFindings>(
        RouteAccess::People,
        "Adds the findings of a tool's report, such as SARIF or rdjson, in the caller's name.",
    )
    .takes(|| schema_for!(ImportFindings))
    .versioned(),
    Route::for_question::<LookAtPullRequest>(
        RouteAccess::People,
        "Asks for a look at the pull request of a ticket now.",
    )
    .takes(|| schema_for!(LookAtPullRequest))
    .versioned(),
    Route::for_question::<RaiseBudget>(RouteAccess::People, "Sets the budget of a ticket.")
        .takes(|| schema_for!(RaiseBudget))
        .versioned(),
    Route::for_question::<ExportTickets>(
        RouteAccess::People,
        "Exports tickets in another system's format.",
    )
    .query(EXPORTED),
    Route::for_question::<ListEscalations>(
        RouteAccess::People,
        "Lists the tickets that wait for a person.",
    )
    .query(ESCALATED),
    Route::for_question::<ShowEscalation>(
        RouteAccess::People,
        "Shows why a ticket waits for a person, and the possible decisions.",
    ),
    Route::for_question::<ResolveEscalation>(
        RouteAccess::People,
        "Resolves an escalation in the caller's name.",
    )
    .takes(|| schema_for!(ResolveEscalation))
    .versioned(),
];
