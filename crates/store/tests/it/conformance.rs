//! Rules for every store. A function is a fact; `facts!` runs each on each database.

pub mod claims;
pub mod crowd;
pub mod decisions;
pub mod leases;
pub mod log;
pub mod records;
pub mod requests;
pub mod wakeups;

use crate::support::{TestStore, drop_schema};

macro_rules! facts {
    ($($module:ident: $($fact:ident),+ $(,)?;)+) => {
        mod on_sqlite {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $fact() {
                    $module::$fact(TestStore::sqlite().await).await;
                }
            )+)+
        }

        mod on_postgres {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $fact() {
                    let Some(house) = TestStore::postgres().await else {
                        return;
                    };
                    let schema = house.schema();
                    $module::$fact(house).await;
                    drop_schema(&schema.unwrap()).await;
                }
            )+)+
        }
    };
}

facts! {
    decisions:
        a_decision_is_written_whole_or_not_at_all,
        a_ticket_is_read_back_as_it_was_written,
        an_id_is_taken_once,
        sixteen_writers_lose_no_update,
        the_same_call_again_gets_the_first_answer,
        ten_same_calls_at_once_write_once,
        a_key_for_another_payload_is_refused,
        a_ticket_that_was_looked_at_must_not_have_changed,
        a_version_out_of_step_is_refused,
        lists_are_paged_and_stay_so_while_tickets_come,
        lists_are_narrowed_by_stage_epic_and_repository,
        tickets_are_counted_by_stage,
        tickets_are_found_by_words_and_by_the_beginning_of_the_id,
        a_sorted_list_goes_on_where_it_was_while_tickets_change,
        dependants_follow_the_spec,
        a_policy_comes_back_as_it_was,
        artefacts_are_listed_and_a_repeated_one_is_one,
        the_next_job_is_claimed_with_the_decision,
        text_with_nul_is_kept_without_it,
        findings_and_rounds_follow_the_ticket;
    claims:
        priority_goes_first_then_age,
        a_job_for_an_agent_goes_to_it_alone,
        a_lease_names_the_worker_and_not_the_agent,
        a_worker_of_one_ticket_gets_its_jobs_alone,
        who_asks_for_its_own_gets_nothing_that_is_anybodys,
        who_has_chosen_a_job_gets_that_one_or_none,
        several_queues_are_one_line,
        a_job_waits_for_its_time,
        a_retry_keeps_the_fence_and_counts,
        dead_and_dropped_jobs_are_kept_and_shown,
        a_full_queue_refuses,
        a_pause_stops_claims_and_ends,
        a_free_job_with_the_same_key_is_one_job,
        finishing_claims_the_next,
        no_ticket_job_is_finished_behind_its_ticket,
        jobs_are_paged,
        jobs_are_found_by_who_has_them_and_who_could,
        jobs_are_counted_by_queue_and_state,
        a_provider_is_given_no_more_than_its_limit,
        a_queue_is_open_while_a_job_in_it_has_not_ended;
    requests:
        a_job_goes_to_a_worker_that_has_its_labels,
        a_request_without_labels_does_not_look_at_them,
        a_job_is_claimed_once_its_dependencies_are_done,
        who_waits_for_a_dependency_is_woken_when_it_is_done,
        one_request_serves_several_agents_and_their_providers,
        a_pause_of_the_worker_s_own_name_stops_its_claims,
        a_job_that_was_passed_over_is_not_given_again,
        a_job_that_is_released_is_as_it_was_but_for_its_fence,
        leases_that_ran_out_are_given_back_or_left_to_their_tickets,
        what_a_claim_could_take_is_listed_before_it_is_claimed;
    leases:
        a_stale_fence_is_refused,
        a_lease_is_lost_only_when_it_has_run_out,
        a_job_dropped_while_leased_takes_no_report,
        a_lease_is_prolonged_by_its_holder_alone,
        a_lapsed_free_job_goes_to_the_next_worker,
        a_free_job_that_loses_every_lease_is_dead,
        a_free_job_that_is_given_back_has_not_failed,
        a_free_job_that_is_dropped_takes_no_result,
        a_lapsed_tell_goes_to_the_next_worker,
        a_lapsed_job_of_a_ticket_waits_for_its_ticket,
        a_lapsed_free_job_is_ended_under_its_fence_alone;
    log:
        a_tickets_events_are_complete_and_in_order,
        the_latest_events_come_in_the_order_in_which_they_happened,
        replaying_the_log_gives_the_ticket,
        the_cursor_skips_nothing_under_concurrent_commits,
        what_changed_no_ticket_is_noted,
        what_was_spent_is_added_up_from_a_time_on,
        what_was_spent_on_no_ticket_is_added_up_too,
        retention_never_touches_live_tickets,
        retention_removes_what_is_old;
    records:
        a_message_is_processed_once,
        the_last_heartbeat_is_seen,
        a_caller_is_written_by_who_read_it_last,
        the_state_of_a_forge_is_written_by_its_last_reader,
        the_newest_sessions_of_a_token_are_kept,
        a_bundle_is_wanted_put_and_taken,
        epics_are_put_and_listed,
        what_is_said_under_a_claim_is_kept_for_that_claim,
        a_rule_is_in_force_until_it_is_withdrawn,
        one_reader_at_a_time_goes_on_from_a_cursor,
        a_job_is_found_by_its_key,
        a_token_is_known_by_its_hash_until_it_is_revoked_and_after,
        a_shared_link_counts_its_uses_and_outlives_its_end,
        a_session_is_extended_within_the_life_of_its_token,
        the_store_says_what_it_is;
    wakeups:
        a_job_wakes_who_waits,
        a_job_that_came_before_the_wait_is_seen,
        a_commit_of_another_connection_wakes_who_waits,
        who_waits_for_another_queue_sleeps_on,
        waiting_ends_by_itself,
        a_decision_wakes_who_watches_the_log,
        watching_the_log_ends_by_itself;
    crowd:
        ten_connections_lose_no_job_and_run_none_twice,
        ten_connections_keep_to_a_provider_s_limit,
        ten_connections_of_one_holder_have_one_claim,
        two_hundred_ask_at_once_and_each_has_its_own_answer,
        who_gives_up_asking_holds_up_nobody;
}
