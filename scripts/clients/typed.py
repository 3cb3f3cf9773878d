"""The story of typed.ts, with a Python client that is generated from the OpenAPI document."""
import os

from countersign_client import AuthenticatedClient
from countersign_client.api.default import (
    delete_pauses_scope_name, get_costs_days, get_escalations, get_jobs, get_me, get_messages, get_pauses, get_status,
    get_tickets, get_tickets_ticket, get_tickets_ticket_diff, get_tickets_ticket_events, get_tickets_ticket_runs,
    get_tickets_ticket_runs_run_transcript, post_escalations_ticket, post_pauses, post_tasks, post_tasks_task_cancel,
    post_tickets, post_tickets_ticket_cancel,
)
from countersign_client import models

API = AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["TOKEN"])
TICKET = "typed-py"


def ok(answer, kind=None):
    """The parsed answer of a call that succeeded, of the type that the document gives it."""
    assert 200 <= answer.status_code < 300, (answer.status_code, answer.content)
    assert answer.parsed is not None, answer.content
    assert kind is None or isinstance(answer.parsed, kind), type(answer.parsed)
    return answer.parsed


def call(module, *words, **fields):
    return module.sync_detailed(*words, client=API, **fields)


me = ok(call(get_me), models.CallerProfile)
assert me.role == "human" and me.ticket is None

body = models.PostTicketsAddTicket.from_dict({"id": TICKET, "title": "Greet the wave", "repository": os.environ["REPO"],
                                              "priority": 70})
added = ok(call(post_tickets, body=body, idempotency_key=TICKET), models.TicketSummary)
assert added.stage == "queued"
found = ok(call(get_tickets, q="wave", stage="queued", sort="-priority", counts="true"), models.TicketList)
assert any(row.id == TICKET and row.priority == 70 for row in found.items)

shown = call(get_tickets_ticket, TICKET)
assert ok(shown, models.Stored).ticket.spec.title == "Greet the wave"
why = models.PostTicketsTicketCancelCancelTicket.from_dict({"why": "not now"})
stale = call(post_tickets_ticket_cancel, TICKET, body=why, if_match='"99"')
assert stale.status_code == 409 and isinstance(stale.parsed, models.Problem) and stale.parsed.detail
cancelled = ok(call(post_tickets_ticket_cancel, TICKET, body=why, if_match=shown.headers["etag"]), models.TicketSummary)
assert cancelled.stage == "cancelled"
events = ok(call(get_tickets_ticket_events, TICKET), models.EventPage)
assert len(events.items) >= 2 and all(event.by for event in events.items)

first = ok(call(get_escalations)).items[0]
assert isinstance(first, models.PendingEscalation) and first.feedback
run = ok(call(get_tickets_ticket_runs, first.id)).items[0]
assert isinstance(run, models.TicketRun)
transcript = call(get_tickets_ticket_runs_run_transcript, first.id, run.id)
assert len(transcript.content) == run.bytes_
assert ok(call(get_tickets_ticket_diff, first.id), models.RoundDiff).files
choice = models.PostEscalationsTicketResolveEscalation.from_dict({"choice": "reject", "why": "not wanted any more"})
assert ok(call(post_escalations_ticket, first.id, body=choice), models.ResolvedEscalation).by

pause = models.PostPausesCreatePause.from_dict({"scope": "queue", "name": "typed"})
ok(call(post_pauses, body=pause))
assert any(pause.scope.name == "typed" for pause in ok(call(get_pauses)).items)
ok(call(delete_pauses_scope_name, "queue", "typed"))
task = models.PostTasksTaskRequest.from_dict({"agent_id": "typist", "task_type": "review", "title": "Look at it",
                                              "description": "All of it"})
queued = ok(call(post_tasks, body=task), models.QueuedTask)
done = models.PostTasksTaskCancelCancelTask.from_dict({"why": "done"})
ok(call(post_tasks_task_cancel, queued.task_id, body=done), models.TaskSummary)
days = ok(call(get_costs_days, days="3"))
assert len(days.items) == 3 and all(day.spent.usd_micros >= 0 for day in days.items)
ok(call(get_status), models.StatusSummary)
ok(call(get_jobs))
ok(call(get_messages))
missing = call(get_tickets_ticket, "nowhere")
assert missing.status_code == 404 and isinstance(missing.parsed, models.Problem)
print("story told")
