//! Who may speak, and what they may be given.

use schemars::schema_for;

use super::{Route, RouteAccess};
use app::operations::questions::people::{
    CreatePause, CreateToken, EndPause, ListAgents, ListPauses, ListProviderLimits, ListTokens,
    ProviderLimit, RevokeToken, RotateToken,
};

pub const ROUTES: &[Route] = &[
    Route::of::<ListTokens>(
        RouteAccess::Administrators,
        "Lists tokens, without their secrets.",
    ),
    Route::of::<CreateToken>(
        RouteAccess::Administrators,
        "Makes a token; its secret is shown this once.",
    )
    .takes(|| schema_for!(CreateToken)),
    Route::of::<RevokeToken>(RouteAccess::Administrators, "Revokes a token."),
    Route::of::<RotateToken>(
        RouteAccess::Administrators,
        "A new secret for the same agent; the old one ends.",
    ),
    Route::of::<ListAgents>(
        RouteAccess::People,
        "Agents and workers that have been seen.",
    ),
    Route::of::<ListPauses>(
        RouteAccess::People,
        "Agents, queues and providers that are given nothing for now.",
    ),
    Route::of::<CreatePause>(
        RouteAccess::People,
        "Gives an agent, a queue or a provider nothing for now.",
    )
    .takes(|| schema_for!(CreatePause)),
    Route::of::<EndPause>(RouteAccess::People, "Ends a pause."),
    Route::of::<ListProviderLimits>(
        RouteAccess::People,
        "Providers of whose jobs only so many run at once.",
    ),
    Route::of::<ProviderLimit>(
        RouteAccess::People,
        "Says how many jobs of a provider run at once, on all machines together.",
    )
    .takes(|| schema_for!(ProviderLimit)),
];
