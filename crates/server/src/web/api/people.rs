//! Routes for tokens, agents, messages, pauses and provider limits.

use schemars::schema_for;

use super::{Route, RouteAccess};
use app::operations::questions::messages::{ListMessages, MarkMessageRead};
use app::operations::questions::people::{
    CreatePause, CreateToken, EndPause, ListAgents, ListPauses, ListProviderLimits, ListTokens,
    ProviderLimit, RevokeToken, RotateToken, ShareTicket, ShowCaller,
};

pub const ROUTES: &[Route] = &[
    Route::for_question::<ShowCaller>(
        RouteAccess::Anyone,
        "Shows the caller: name, role, and the ticket that the token is limited to.",
    ),
    Route::for_question::<ListTokens>(
        RouteAccess::Administrators,
        "Lists tokens, without their secrets.",
    ),
    Route::for_question::<CreateToken>(
        RouteAccess::Administrators,
        "Creates a token. Its secret is shown only in this answer.",
    )
    .takes(|| schema_for!(CreateToken)),
    Route::for_question::<ShareTicket>(
        RouteAccess::People,
        "Makes a link that shows this ticket to everybody who has it, read-only and with an end.",
    )
    .takes(|| schema_for!(ShareTicket)),
    Route::for_question::<RevokeToken>(RouteAccess::Administrators, "Revokes a token."),
    Route::for_question::<RotateToken>(
        RouteAccess::Administrators,
        "Replaces the secret of a token; the old one stops working.",
    ),
    Route::for_question::<ListAgents>(
        RouteAccess::People,
        "Lists agents and workers that have called.",
    ),
    Route::for_question::<ListMessages>(
        RouteAccess::People,
        "Lists unread messages to you, and to all people.",
    ),
    Route::for_question::<MarkMessageRead>(RouteAccess::People, "Marks a message as read."),
    Route::for_question::<ListPauses>(
        RouteAccess::People,
        "Lists the pauses of agents, queues and providers.",
    ),
    Route::for_question::<CreatePause>(
        RouteAccess::People,
        "Pauses an agent, a queue or a provider: it gets no new jobs.",
    )
    .takes(|| schema_for!(CreatePause)),
    Route::for_question::<EndPause>(RouteAccess::People, "Ends a pause."),
    Route::for_question::<ListProviderLimits>(
        RouteAccess::People,
        "Lists the limits on concurrent jobs of providers.",
    ),
    Route::for_question::<ProviderLimit>(
        RouteAccess::People,
        "Sets how many jobs of a provider run at once, on all machines together.",
    )
    .takes(|| schema_for!(ProviderLimit)),
];
