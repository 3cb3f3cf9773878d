//! Who may speak, and what they may be given.

use schemars::schema_for;

use super::{Route, Who};
use app::operations::questions::people::{
    Agents, CreateToken, EndPause, MakePause, Pauses, ProviderLimit, ProviderLimits, RevokeToken,
    RotateToken, Tokens,
};

pub const ROUTES: &[Route] = &[
    Route::of::<Tokens>(Who::Administrators, "Lists tokens, without their secrets."),
    Route::of::<CreateToken>(
        Who::Administrators,
        "Makes a token; its secret is shown this once.",
    )
    .takes(|| schema_for!(CreateToken)),
    Route::of::<RevokeToken>(Who::Administrators, "Revokes a token."),
    Route::of::<RotateToken>(
        Who::Administrators,
        "A new secret for the same agent; the old one ends.",
    ),
    Route::of::<Agents>(Who::People, "Agents and workers that have been seen."),
    Route::of::<Pauses>(
        Who::People,
        "Agents, queues and providers that are given nothing for now.",
    ),
    Route::of::<MakePause>(
        Who::People,
        "Gives an agent, a queue or a provider nothing for now.",
    )
    .takes(|| schema_for!(MakePause)),
    Route::of::<EndPause>(Who::People, "Ends a pause."),
    Route::of::<ProviderLimits>(
        Who::People,
        "Providers of whose jobs only so many run at once.",
    ),
    Route::of::<ProviderLimit>(
        Who::People,
        "Says how many jobs of a provider run at once, on all machines together.",
    )
    .takes(|| schema_for!(ProviderLimit)),
];
