//! Tests the conversation with a real process that speaks the protocol.

use super::*;

fn agent() -> AcpAgent {
    AcpAgent(CommandAgent {
        program: "/usr/bin/python3".into(),
        args: vec!["-c".into(), include_str!("acp_agent.py").into()],
    })
}

async fn talk(desk: &AgentDir, assignment: &AgentAssignment, stop: StopSignal) -> AgentReport {
    let report = run_agent(&desk.host, &agent(), assignment, |_| {}, stop).await;
    report.unwrap()
}

#[tokio::test]
async fn an_agent_that_asks_is_answered_by_its_role_and_ended_when_it_is_done() {
    for (role, written) in [(AgentRole::Build, true), (AgentRole::Review, false)] {
        let desk = AgentDir::new();
        let mut assignment = desk.assignment();
        assignment.role = role;
        assignment.limits.exit_grace = Duration::from_millis(300);
        let report = talk(&desk, &assignment, StopSignal::never()).await;
        assert_eq!(
            report.exit,
            ProcessExit::Dismissed,
            "it would never have ended"
        );
        assert_eq!(text(&report), ("All done.", ResultSource::Event));
        assert_eq!(desk.dir.path().join("work/out.txt").exists(), written);
        assert_eq!(report.denials, u64::from(!written));
        assert_eq!(report.model.as_deref(), Some("m-1"));
        assert_eq!(report.usage.tokens_in, Some(10));
        assert_eq!(report.survivors, 0);
    }
}

#[tokio::test]
async fn an_agent_that_wants_a_login_is_barred() {
    let desk = AgentDir::new();
    let mut assignment = desk.assignment();
    assignment.env.push(("LOGIN".into(), "no".into()));
    assignment.limits.exit_grace = Duration::from_millis(300);
    let report = talk(&desk, &assignment, StopSignal::never()).await;
    assert!(matches!(
        report.trouble,
        Some(AgentEvent::ActionRequired { .. })
    ));
}

#[tokio::test]
async fn an_agent_that_is_stopped_hears_of_it_first() {
    let desk = AgentDir::new();
    let mut assignment = desk.assignment();
    assignment.env.push(("HANGS".into(), "1".into()));
    let (stopper, stop) = StopSignal::pair();
    let mut on_event = |event: &AgentEvent| {
        if matches!(event, AgentEvent::ToolUsed { .. }) {
            stopper.stop();
        }
    };
    assignment.limits.term_grace = Duration::from_secs(1);
    let report = run_agent(&desk.host, &agent(), &assignment, &mut on_event, stop).await;
    assert_eq!(report.unwrap().exit, ProcessExit::Cancelled);
    assert!(desk.dir.path().join("work/cancelled").exists());
}
